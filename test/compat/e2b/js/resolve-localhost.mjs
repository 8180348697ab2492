// Every name below localhost is this machine, as browsers and curl have it. Node asks the system, which may not know.

import dns from 'node:dns'

const { lookup } = dns
dns.lookup = (name, ...rest) => lookup(name.endsWith('.localhost') ? '127.0.0.1' : name, ...rest)
