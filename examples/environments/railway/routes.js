import { writeFileSync } from 'node:fs'
import ms from 'ms'

writeFileSync('routes.json', JSON.stringify({ '/health': { timeout: ms('5s') } }))
