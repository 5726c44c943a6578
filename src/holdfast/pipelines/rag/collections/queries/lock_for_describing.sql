-- Wait for documents that are being added, and let none be added until the end. Only PostgreSQL needs this.
lock table rag_document in share row exclusive mode
