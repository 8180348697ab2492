/**
 * A minimal server: a journal has its messages, and it sends those that podd does not have yet. It is killed
 * at any moment, and the next one continues. Call: `node talker.ts <socket> <tag> <journal> <lines>`
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { inputAccepted, sendInput } from '../../src/guest/conversation.ts'
import { poddGuest } from '../../src/guest/podd/client.ts'
import { socketStreams } from '../../src/guest/podd/streams.ts'

const [, , socket = '', tag = '', journal = '', lines = '0'] = process.argv
const guest = poddGuest(socketStreams({ api: socket }))
const { signal } = new AbortController()

const written = existsSync(journal) ? readFileSync(journal) : Buffer.alloc(0)
// The one before may have been killed in the middle of a line.
let count = written.toString('latin1').split('\n').length - 1
if (written.length > 0 && written.at(-1) !== 10) {
  appendFileSync(journal, '\n')
  count++
}
let sent = await inputAccepted(guest, tag, signal)
for (; ; count++) {
  const all = readFileSync(journal, { flag: 'a+' })
  if (sent < all.length)
    sent = await sendInput(guest, tag, { offset: sent, data: all.subarray(sent) }, signal)
  if (count >= Number(lines)) break
  appendFileSync(journal, `line ${count} ${'x'.repeat(count % 3000)}\n`)
}
guest.close()
