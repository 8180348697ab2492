import { createServer } from 'node:http'
import { inWords } from './index.js'

const port = Number(process.argv[process.argv.indexOf('--port') + 1])
const startedAt = Date.now()

createServer((_, response) => response.end(`up for ${inWords(Date.now() - startedAt)}\n`)).listen(port, () =>
  console.log(`listening on ${port}`),
)
