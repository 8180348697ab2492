/**
 * The egress process: `node egress.js SOCKET [--upstream-proxy URL] [--cache DIRECTORY [--cache-limit
 * BYTES]]`.
 */
import { parseArgs } from 'node:util'
import { startEgress } from '../egress/egress.ts'
import { TlsInterceptor } from '../egress/tls/intercept.ts'
import { jsonLog } from '../telemetry/log.ts'
import { systemClock } from '../util/clock.ts'
import { hostRoots } from './host-roots.ts'
import { guardProcess } from './process-guard.ts'

const DEFAULT_CACHE_LIMIT = 10 * 1024 ** 3
const { values, positionals } = parseArgs({
  options: {
    'upstream-proxy': { type: 'string' },
    cache: { type: 'string' },
    'cache-limit': { type: 'string' },
  },
  allowPositionals: true,
})
const { cache: directory, 'cache-limit': limit } = values
process.umask(0o077)
const log = jsonLog(systemClock, (line) => void process.stderr.write(line))
const egress = await startEgress({
  socketPath: positionals[0] ?? '',
  upstreamProxy: values['upstream-proxy'],
  cache:
    directory === undefined
      ? undefined
      : { directory, limitBytes: limit === undefined ? DEFAULT_CACHE_LIMIT : Number(limit) },
  log,
  version: process.version,
  interceptor: new TlsInterceptor(systemClock),
  trusted: [hostRoots(process.env['SSL_CERT_FILE']).hostRoots()],
})
guardProcess({ log, stop: () => egress.stop() })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void egress.stop())
await egress.done
process.exit(0)
