/**
 * The certificate of a server that serves E2B host names over TLS. Its authority is made once and kept; the
 * certificate is made at every start.
 */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../core/home.ts'
import { systemClock } from '../util/clock.ts'
import { makeDirectory } from '../util/file/make-directory.ts'
import { systemRandom } from '../util/random.ts'
import { type Authority, makeAuthority, makeCertificate } from '../util/x509/certificate.ts'

const KEY_FILE = 'ca.key'
const CERT_FILE = 'ca.pem'

/** For the domain, all names one level below it, and loopback. */
export function ownCertificate(home: Home, domain: string): { readonly cert: string; readonly key: string } {
  const parts = { now: systemClock.now(), random: systemRandom }
  const authority = readAuthority(home) ?? keepAuthority(home, makeAuthority(parts))
  const names = [domain, `*.${domain}`, 'localhost', '127.0.0.1', '::1']
  const { cert, key } = makeCertificate(authority, names, parts)
  return { cert: cert + authority.cert, key }
}

function readAuthority(home: Home): Authority | undefined {
  try {
    const read = (file: string): string => readFileSync(join(home.tls, file), 'utf8')
    return { key: read(KEY_FILE), cert: read(CERT_FILE) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Both files appear at once. If two servers start together, one makes them and the other uses them. */
function keepAuthority(home: Home, made: Authority): Authority {
  makeDirectory(home.root, 0o700)
  const directory = mkdtempSync(`${home.tls}.`)
  try {
    writeFileSync(join(directory, KEY_FILE), made.key, { mode: 0o600 })
    writeFileSync(join(directory, CERT_FILE), made.cert, { mode: 0o600 })
    renameSync(directory, home.tls)
    return made
  } catch (error) {
    rmSync(directory, { recursive: true, force: true })
    const theirs = readAuthority(home)
    if (theirs) return theirs
    throw error
  }
}
