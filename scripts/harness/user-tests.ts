// Runs test files as an ordinary user: a new account with its own clone, whose only privilege on this machine
// is a range in /etc/subuid.

import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, utimesSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  giveNode,
  makeOrdinaryUser,
  noOrdinaryUser,
  type OrdinaryUser,
} from '../../test/support/ordinary-user.ts'
import { runNodeTests } from './node-tests.ts'
import { type Case, failed, skipped } from './result.ts'

export type UserTestOptions = {
  readonly root: string
  readonly files: readonly string[]
  readonly concurrency: number
  readonly limitMs: number
}

export async function runAsOrdinaryUser(options: UserTestOptions): Promise<Case[]> {
  const why = noOrdinaryUser()
  if (why) return [skipped('as an ordinary user', why)]
  const user = makeOrdinaryUser((target) => clone(options.root, target))
  const cases = await runAs(user, options).catch((error: unknown) => [
    failed('as an ordinary user', String(error)),
  ])
  try {
    user[Symbol.dispose]()
    return cases
  } catch (error) {
    const left = spawnSync('ps', ['-u', user.name, '-o', 'pid=,args='], { encoding: 'utf8' }).stdout
    return [...cases, failed('as an ordinary user: nothing is left behind', `${String(error)}\n${left}`)]
  }
}

async function runAs(user: OrdinaryUser, options: UserTestOptions): Promise<Case[]> {
  const root = dirname(user.agentpod)
  execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, root])
  const tmp = mkdtempSync(join(user.home, 't'))
  execFileSync('chown', [`${user.uid}:${user.gid}`, tmp])
  // npm gives its scripts the cache and settings of the person who runs them.
  const npms = Object.keys(process.env).filter((name) => /^npm_/i.test(name))
  const become = [
    'env',
    ...npms.flatMap((name) => ['-u', name]),
    ...['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', '--'],
  ]
  const cases = await runNodeTests({
    ...options,
    root,
    env: { AGENTPOD_TEST: '1', HOME: user.home, USER: user.name, LOGNAME: user.name, TMPDIR: tmp },
    node: [...become, join(root, 'node')],
  })
  return cases.map((one) => ({ ...one, name: `as an ordinary user: ${one.name}` }))
}

/** Copies the files that git knows, the build and the packages, as after a clone and `npm install`. */
function clone(root: string, target: string): void {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root })
  const files = execFileSync('tar', ['--null', '-T', '-', '--ignore-failed-read', '-cf', '-'], {
    cwd: root,
    input: listed,
    maxBuffer: 1 << 30,
  })
  execFileSync('tar', ['-xf', '-', '-C', target], { input: files })
  // The registry server takes minutes to build.
  const built = ['node_modules', 'dist', '.cache/registry'].filter((name) => existsSync(join(root, name)))
  for (const directory of built)
    cpSync(join(root, directory), join(target, directory), { recursive: true, verbatimSymlinks: true })
  giveNode(target)
  const now = new Date()
  for (const stamp of ['dist/.stamp', 'dist/bin/.stamp', 'dist/bin/.podimage-stamp'])
    if (existsSync(join(target, stamp))) utimesSync(join(target, stamp), now, now)
}
