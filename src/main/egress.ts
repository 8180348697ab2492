/** The egress process: `node egress.js SOCKET [UPSTREAM-PROXY]`. */
import { startEgress } from '../egress/egress.ts'
import { TlsInterceptor } from '../egress/intercept-tls.ts'
import { secretHooks } from '../egress/secret-hooks.ts'
import { jsonLog } from '../telemetry/log.ts'
import { systemClock } from '../util/clock.ts'
import { hostRoots } from './host-roots.ts'
import { guardProcess } from './process-guard.ts'

const [socketPath = '', upstreamProxy] = process.argv.slice(2)
process.umask(0o077)
const log = jsonLog(systemClock, (line) => void process.stderr.write(line))
const egress = await startEgress({
  socketPath,
  upstreamProxy,
  log,
  version: process.version,
  interceptor: new TlsInterceptor(systemClock),
  hooks: secretHooks,
  trusted: [hostRoots(process.env['SSL_CERT_FILE']).hostRoots()],
})
guardProcess({ log, stop: () => egress.stop() })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void egress.stop())
await egress.done
process.exit(0)
