"""Policy hooks: processes that are asked about calls by JSON-RPC 2.0 over stdio."""
