-- Wait for a change of metadata. Other documents may be added at the same time. Only PostgreSQL needs this.
lock table rag_document in row exclusive mode
