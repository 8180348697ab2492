import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { FILTERED_BY_PODD, seccompProfile } from './seccomp.ts'
import { ALLOWED, ALLOWED_AMD64, DENIED, DENIED_AMD64 } from './system-calls.ts'

const tables = join(import.meta.dirname, '../../../../native/internal/seccomp')

/** The names in one list of the Go tables. */
function listed(file: string, list: string): string[] {
  const text = readFileSync(join(tables, file), 'utf8')
  const body = new RegExp(`${list}\\s*=\\s*\\[\\]int\\{(.*?)\\}`, 's').exec(text)?.[1] ?? ''
  return [...body.matchAll(/unix\.SYS_(\w+)/g)].map(([, name = '']) => name.toLowerCase()).sort()
}

describe('the seccomp profile for Docker', () => {
  test('Docker’s seccomp profile allows and denies the same calls as podd’s filter', () => {
    assert.ok(ALLOWED.length > 200)
    assert.deepEqual(ALLOWED, listed('table.go', 'allowed'))
    assert.deepEqual(DENIED, listed('table.go', 'denied'))
    assert.deepEqual(ALLOWED_AMD64, listed('table_amd64.go', 'archAllowed'))
    assert.deepEqual(DENIED_AMD64, listed('table_amd64.go', 'archDenied'))
    assert.deepEqual(listed('table_arm64.go', 'archAllowed'), [])
  })

  test('Docker’s seccomp profile handles or leaves to podd every call that is filtered by arguments', () => {
    const text = readFileSync(join(tables, 'program.go'), 'utf8')
    const special = [...text.matchAll(/unix\.SYS_(\w+):/g)].map(([, name = '']) => name.toLowerCase())
    const named = new Set(seccompProfile().syscalls.flatMap(({ names }) => names))
    assert.deepEqual(
      special.sort(),
      ['clone', 'clone3', 'personality', 'socket', 'socketpair', ...FILTERED_BY_PODD].sort(),
    )
    for (const name of special) assert.ok(named.has(name), name)
  })

  test('Docker’s seccomp profile denies unknown calls and every new namespace', () => {
    const { defaultAction, syscalls } = seccompProfile()
    assert.equal(defaultAction, 'SCMP_ACT_ERRNO')
    const always = new Set(
      syscalls
        .filter(({ action, args }) => action === 'SCMP_ACT_ALLOW' && !args)
        .flatMap(({ names }) => names),
    )
    for (const name of [
      'clone',
      'clone3',
      'unshare',
      'setns',
      'mount',
      'bpf',
      'ptrace',
      'socket',
      'io_uring_setup',
    ])
      assert.ok(!always.has(name), name)
  })
})
