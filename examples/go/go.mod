module approvals.example

go 1.24
