/** A server with the provider in it: `node serve.ts HOME`. Clients find it by AGENTPOD_HOME=HOME. */
import { join, resolve } from 'node:path'
import { bundledPrograms, startServer } from 'agentpod/server'
import { namespaces } from './provider.ts'

const [home] = process.argv.slice(2)
if (home === undefined) throw new Error('usage: node serve.ts HOME')

const server = await startServer({
  home: resolve(home),
  version: 'example',
  programs: bundledPrograms(),
  idleExitMs: 0,
  providers: [(parts) => namespaces({ directory: join(parts.home, 'namespaces'), podd: parts.podd })],
  writeLog: (line) => void process.stderr.write(line),
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void server.stop())
await server.done
