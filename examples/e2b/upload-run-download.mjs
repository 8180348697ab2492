// Sends a data set and a program into a sandbox, runs the program, and downloads its result.

import { writeFile } from 'node:fs/promises'
import { Sandbox } from 'e2b'

const DATA = 'city,celsius\nOslo,4\nCairo,31\nLima,19\n'
const PROGRAM = `
import csv, json
rows = list(csv.DictReader(open('data.csv')))
hottest = max(rows, key=lambda row: float(row['celsius']))
json.dump({'cities': len(rows), 'hottest': hottest['city']}, open('report.json', 'w'))
print('read', len(rows), 'rows')
`

const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { purpose: 'report' } })
try {
  await sandbox.files.write([
    { path: 'data.csv', data: DATA },
    { path: 'report.py', data: PROGRAM },
  ])
  const { stdout } = await sandbox.commands.run('python3 report.py')
  console.log(stdout.trim())

  const report = JSON.parse(await sandbox.files.read('report.json'))
  console.log(`${report.hottest} is the hottest of ${report.cities}`)

  // The same file without the SDK: an address that works for five minutes.
  const url = await sandbox.downloadUrl('report.json', { useSignatureExpiration: 300 })
  await writeFile('report.json', await (await fetch(url)).text())
  console.log('saved report.json')
} finally {
  await sandbox.kill()
}
