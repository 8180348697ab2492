/**
 * The model service as a program, for example in another network namespace: `node test/model/main.ts --port
 * 8080 --key secret --scenario fix`. With `--cert` and `--secret` (files) it speaks TLS. It writes a line of
 * JSON when it listens and one for each request, and ends when its input does.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { startModel } from './model.ts'
import { isScenario } from './scenarios/all.ts'

const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '0' },
    key: { type: 'string', multiple: true },
    scenario: { type: 'string', default: 'nothing' },
    cert: { type: 'string' },
    secret: { type: 'string' },
  },
})
const { host, port, key, scenario, cert, secret } = values
if (!isScenario(scenario)) throw new Error(`no scenario is named ${scenario}`)

const tell = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
const { url } = await startModel({
  host,
  port: Number(port),
  scenario,
  ...(key && { keys: key }),
  ...(cert !== undefined &&
    secret !== undefined && { tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(secret, 'utf8') } }),
  notice: (request) => tell({ kind: 'request', request }),
})
tell({ kind: 'ready', url })
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
