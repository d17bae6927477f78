"""Policy hooks: the operator's own processes, asked about calls by JSON-RPC 2.0 over stdio.

Enter at `decider` (the hooks as a link of the policy chain) or `process` (one hook and its pipe).
"""
