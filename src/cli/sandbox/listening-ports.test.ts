import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listeningIn } from './listening-ports.ts'

const HEAD =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n'
const line = (address: string, state = '0A'): string =>
  `   0: ${address} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0\n`

test('a table of the kernel tells who listens where programs of this machine would look', () => {
  assert.deepEqual(
    listeningIn(
      HEAD +
        line('00000000:1F90') +
        line('0100007F:0BB8') +
        line('00000000000000000000000000000000:1F91') +
        line('00000000000000000000000001000000:1F92') +
        line('0100007F:0016', '01') +
        line('0202A8C0:0050'),
    ),
    [
      { port: 8080, isOpen: true },
      { port: 3000, isOpen: false },
      { port: 8081, isOpen: true },
      { port: 8082, isOpen: false },
    ],
  )
})

test('what is no table is nothing', () => {
  for (const text of ['', '\0\0', '0: x', `${'0'.repeat(100_000)}:`, '   0: 00000000:1F9 0:0000 0A '])
    assert.deepEqual(listeningIn(text), [])
})
