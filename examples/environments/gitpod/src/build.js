// Writes the table of units that the tests and the server read.
import { mkdirSync, writeFileSync } from 'node:fs'
import ms from 'ms'

const units = Object.fromEntries(['s', 'm', 'h', 'd'].map((unit) => [unit, ms(`1${unit}`)]))
mkdirSync('dist', { recursive: true })
writeFileSync('dist/units.json', JSON.stringify(units))
