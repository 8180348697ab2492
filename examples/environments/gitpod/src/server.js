import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const units = readFileSync('dist/units.json', 'utf8')
createServer((_, response) => response.end(units)).listen(4190, '127.0.0.1')
