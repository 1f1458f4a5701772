"""From a document to what people read: sentences, tables and charts as plain data, each written once."""
