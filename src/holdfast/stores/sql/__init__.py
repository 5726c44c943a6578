"""What SQL stores share: the roles of a store, written once, with a dialect for each database."""
