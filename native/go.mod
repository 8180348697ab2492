module agentpod/native

go 1.19

require golang.org/x/sys v0.30.0
