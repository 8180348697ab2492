/** What outside verification found about agents' runs and daily use, one case for each id. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { AcpUser, AGENT, type Worked, worked } from '../support/acp-user.ts'
import { until, World } from '../support/world.ts'

const world = new World()
let user: AcpUser
before(() => {
  user = AcpUser.with(world)
})
after(() => world[Symbol.asyncDispose]())

const read = (path: string): string => readFileSync(join(user.project.root, path), 'utf8')
const write = (path: string, text: string): void => writeFileSync(join(user.project.root, path), text)

async function send(id: string, prompt: string, ...options: string[]): Promise<Worked> {
  return worked(await user.cli(['send', ...options, '--json', id, prompt]))
}

describe('A1: follow-ups never conflict with themselves', () => {
  const first = "sh printf 'one\\ntwo\\n' > a.txt; echo first > new.txt"
  const second = "sh printf 'one\\nsecond\\n' > a.txt; echo second > new.txt"
  const third = 'sh rm new.txt; echo third > third.txt'
  const reset = (): void => {
    user.project.git('checkout', '-q', '-f', 'main')
    user.project.git('clean', '-qfd')
    write('a.txt', 'one\n')
    rmSync(join(user.project.root, 'new.txt'), { force: true })
    rmSync(join(user.project.root, 'third.txt'), { force: true })
    user.project.commitAll('as at the beginning')
  }

  for (const squash of [[], ['--squash']])
    test(`A1: run, merge, send, merge, send, merge ${squash.join('')} never conflict`, async () => {
      reset()
      const { id, result } = await user.work(first)
      await user.ok(['merge', ...squash, id])
      assert.equal(read('a.txt'), 'one\ntwo\n')
      const next = await send(id, second)
      assert.equal(
        user.project.git('rev-parse', `${next.result.branch}~1`),
        user.project.git('rev-parse', result.branch ?? ''),
        'the second turn is a commit on the first',
      )
      await user.ok(['merge', ...squash, id])
      assert.deepEqual([read('a.txt'), read('new.txt')], ['one\nsecond\n', 'second\n'])
      await send(id, third)
      await user.ok(['merge', ...squash, id])
      assert.equal(read('third.txt'), 'third\n')
      assert.throws(() => read('new.txt'))
      assert.equal(user.project.git('status', '--porcelain'), '')
    })

  test('A1: run, apply, send, apply, send, apply never conflict, with edits of the user in between', async () => {
    reset()
    const { id } = await user.work(`${first}; printf '1\\n2\\n3\\n4\\n5\\n' > numbers.txt`)
    await user.ok(['apply', id])
    write('numbers.txt', '1\n2\n3\n4\nfive\n')
    await send(id, `${second}; printf 'one\\n2\\n3\\n4\\n5\\n' > numbers.txt`)
    await user.ok(['apply', id])
    assert.deepEqual(
      [read('a.txt'), read('new.txt'), read('numbers.txt')],
      ['one\nsecond\n', 'second\n', 'one\n2\n3\n4\nfive\n'],
    )
    await send(id, third)
    await user.ok(['apply', id])
    assert.equal(read('third.txt'), 'third\n')
    assert.throws(() => read('new.txt'))
    rmSync(join(user.project.root, 'numbers.txt'))
    // What was thrown away can be had again.
    reset()
    await user.ok(['apply', id])
    assert.deepEqual([read('a.txt'), read('third.txt')], ['one\nsecond\n', 'third\n'])
  })

  test('A1: run, apply, commit, send, merge, and run, merge, send, apply never conflict', async () => {
    reset()
    const one = await user.work(first)
    await user.ok(['apply', one.id])
    user.project.commitAll('what was applied')
    await send(one.id, second)
    await user.ok(['merge', one.id])
    assert.equal(read('a.txt'), 'one\nsecond\n')
    reset()
    const other = await user.work(first)
    await user.ok(['merge', other.id])
    await send(other.id, second)
    await user.ok(['apply', other.id])
    assert.deepEqual([read('a.txt'), read('new.txt')], ['one\nsecond\n', 'second\n'])
  })

  test('A1: `send --update` brings the user’s commits in, and names the files where it cannot', async () => {
    reset()
    const { id } = await user.work('sh echo theirs > theirs.txt')
    write('mine.txt', 'mine\n')
    user.project.commitAll('mine')
    const next = await send(id, 'sh cat mine.txt > seen.txt', '--update')
    assert.deepEqual(
      next.result.changes.map(({ path }) => path),
      ['seen.txt'],
      'what the user committed is not the agent’s',
    )
    assert.match(await user.ok(['diff', '--stat', id]), /seen\.txt[\s\S]*theirs\.txt/)
    assert.doesNotMatch(await user.ok(['diff', '--stat', id]), /mine\.txt/)
    await user.ok(['merge', id])
    assert.deepEqual([read('seen.txt'), read('theirs.txt')], ['mine\n', 'theirs\n'])
    write('theirs.txt', 'changed by me\n')
    user.project.commitAll('mine again')
    await send(id, 'sh cat theirs.txt > seen.txt', '--update')
    await user.ok(['merge', id])
    assert.equal(read('seen.txt'), 'changed by me\n')
    await send(id, 'sh echo the agent >> theirs.txt')
    write('theirs.txt', 'changed by me\nand I\n')
    user.project.commitAll('in the same place')
    const { code, stderr } = await user.cli(['send', '--update', id, 'say hello'])
    assert.equal(code, 5)
    assert.match(
      stderr,
      /nothing was sent: your commits and the run change the same lines of\n {2}theirs\.txt/,
    )
  })
})

test('A2: a branch that is named is the branch that is taken', async () => {
  const { id, result } = await user.work('sh echo 1 > turn.txt')
  const next = await send(id, 'sh echo 2 > turn.txt')
  const [one, two] = [result.branch ?? '', next.result.branch ?? '']
  assert.match(await user.ok(['diff', one]), /^\+1$/m)
  assert.match(await user.ok(['diff', two]), /^\+2$/m)
  await user.ok(['merge', one])
  assert.equal(read('turn.txt'), '1\n')
  await user.ok(['apply', two])
  assert.equal(read('turn.txt'), '2\n')
  user.project.git('checkout', '-q', '-f', 'HEAD')
})

test('A5: a run that is not there is not found', async () => {
  await user.work('sh echo x > turn.txt')
  for (const call of [
    ['diff'],
    ['diff', '--stat'],
    ['apply'],
    ['merge'],
    ['compare', '--no-tests'],
    ['follow'],
    ['send'],
    ['cancel'],
    ['runs', 'show'],
    ['runs', 'rm'],
    ['branch', 'make'],
  ])
    for (const word of ['acp-777', 'nosuchrun', 'runzzzzzzzzzzzz']) {
      const text = call[0] === 'send' ? ['more'] : []
      const { code, stdout, stderr } = await user.cli([...call, word, ...text])
      assert.deepEqual([code, stdout], [4, ''], `${call.join(' ')} ${word}: ${stderr}`)
      assert.match(stderr, new RegExp(`there is no run "${word}"`))
    }
  assert.match(await user.ok(['diff', '--stat', 'turn.txt']), /turn\.txt/, 'a file is none')
})

test('A8: the number of a run is its own, in its label and in its branches', async () => {
  const label = async (id: string): Promise<string> => {
    const info = (await user.runs()).find((one) => one.id === id)
    return `${info?.agent}-${info?.number}`
  }
  const [a, b] = [await user.work('sh echo 1 > same.txt'), await user.work('sh echo 1 > same.txt')]
  assert.notEqual(await label(a.id), await label(b.id))
  for (const { id, result } of [a, b])
    assert.ok(result.branch?.endsWith(`-${await label(id)}`), result.branch ?? '')
  const next = await send(a.id, 'sh echo 2 > same.txt')
  assert.equal(next.result.branch, `${a.result.branch}-turn-2`)
  await user.ok(['branch', 'make', a.id])
  assert.ok(user.branches().includes(`${a.result.branch}-turn-2-v2`))
})

test('A14: `merge` does not commit what the user has not committed, unless they say so', async () => {
  write('draft.txt', 'a draft\n')
  const { id } = await user.work('sh echo more >> draft.txt')
  const before = user.project.git('rev-parse', 'HEAD')
  const { code, stderr } = await user.cli(['merge', id])
  assert.equal(code, 6)
  assert.match(stderr, /uncommitted files of yours[\s\S]*draft\.txt[\s\S]*--with-uncommitted/)
  assert.equal(user.project.git('rev-parse', 'HEAD'), before)
  assert.equal(read('draft.txt'), 'a draft\n')
  await user.ok(['merge', '--with-uncommitted', id])
  assert.equal(read('draft.txt'), 'a draft\nmore\n')
  // What was committed meanwhile is no question.
  write('later.txt', 'later\n')
  const later = await user.work('sh echo x > x.txt')
  user.project.commitAll('later')
  await user.ok(['merge', later.id])
})

// A16, hidden model calls: `test/e2e/agents.test.ts` asks a real Claude Code.

test('A17: two messages of an agent are not one word in the commit', async () => {
  const { result } = await user.work('say First done.\nsh echo x > said.txt\nsay Second done.')
  const body = user.project.git('log', '-1', '--format=%b', result.branch ?? '')
  assert.match(body, /^Second done\.$/m)
  assert.doesNotMatch(body, /First done\.Second/)
})

test('A17: `runs` finds the runs of a repository in each of its working trees', async () => {
  const { id } = await user.work('sh echo x > tree.txt')
  const other = join(world.directory(), 'other')
  user.project.git('worktree', 'add', '-q', '--detach', other)
  assert.match(await user.ok(['runs'], { cwd: other }), new RegExp(id))
  await user.ok(['apply', id], { cwd: other })
  assert.equal(readFileSync(join(other, 'tree.txt'), 'utf8'), 'x\n')
})

test('A17: single files that run later can be taken, and the others left', async () => {
  const { id, result } = await user.work(
    'sh echo all: > Makefile; mkdir .husky; echo x > .husky/pre-commit; echo x > plain.txt',
  )
  assert.deepEqual(result.leftOut.toSorted(), ['.husky/pre-commit', 'Makefile'])
  await user.ok(['branch', 'make', id, '--name', 'agentpod/some-of-it', '--take', 'Makefile'])
  assert.deepEqual(user.changed('agentpod/some-of-it'), ['Makefile', 'plain.txt'])
  await user.ok(['apply', id, '--take', '.husky/'])
  assert.equal(read('.husky/pre-commit'), 'x\n')
  assert.throws(() => read('Makefile'))
})

test('A17: files for Git LFS that come as plain content are named', async () => {
  write('.gitattributes', '*.bin filter=lfs diff=lfs merge=lfs -text\n')
  user.project.commitAll('large files')
  const pointer = `version https://git-lfs.github.com/spec/v1\\noid sha256:${'a'.repeat(64)}\\nsize 12\\n`
  const { result } = await user.work(
    `sh echo raw > one.bin; mkdir -p deep; echo raw > deep/two.bin; printf '${pointer}' > pointed.bin; echo x > lfs.txt`,
  )
  const notes = result.notes.join('\n')
  assert.match(
    notes,
    /^deep\/two\.bin, one\.bin are in Git LFS by \.gitattributes and arrived as plain content/m,
  )
  assert.match(notes, /git add --renormalize/)
  const without = await user.work('sh echo x > lfs.txt')
  assert.doesNotMatch(without.result.notes.join('\n'), /LFS/, 'the control')
  rmSync(join(user.project.root, '.gitattributes'))
  user.project.commitAll('no large files')
})

test('A17: `branch clean` removes what is remembered of runs that are gone, in every working tree', async () => {
  user.project.commitAll('all')
  const refs = (cwd: string): string =>
    execFileSync(
      'git',
      ['for-each-ref', '--format=%(refname)', 'refs/agentpod/', 'refs/worktree/agentpod/'],
      { cwd, encoding: 'utf8' },
    )
  const other = join(world.directory(), 'tree')
  user.project.git('worktree', 'add', '-q', '-b', 'elsewhere', other)
  const gone = await user.work('sh echo x > of-gone.txt')
  const stays = await user.work('sh echo x > of-stays.txt')
  for (const cwd of [user.project.root, other]) await user.ok(['apply', gone.id], { cwd })
  await user.ok(['apply', stays.id])
  user.project.commitAll('applied')
  await send(gone.id, 'sh echo more >> of-gone.txt', '--update')
  const remembered = new RegExp(
    `refs/agentpod/updated/${gone.id}\\n[^]*refs/worktree/agentpod/applied/${gone.id}\\n`,
  )
  assert.match(refs(user.project.root), remembered, 'the control')
  await user.ok(['branch', 'clean', '--all'])
  assert.match(refs(user.project.root), remembered, 'the run is there')
  await user.ok(['runs', 'rm', gone.id])
  const { stderr } = await user.cli(['branch', 'clean', '--all'])
  assert.match(stderr, /removed 3 refs of removed runs/)
  for (const cwd of [user.project.root, other]) assert.doesNotMatch(refs(cwd), new RegExp(gone.id))
  assert.match(refs(user.project.root), new RegExp(`refs/worktree/agentpod/applied/${stays.id}`))
  user.project.git('worktree', 'remove', '--force', other)
})

test('E15: caches that programs leave beside the sources are no change, unless the project has them', async () => {
  const leaves =
    'sh mkdir -p api/__pycache__ .pytest_cache; echo x > api/__pycache__/b.pyc; echo x > .pytest_cache/v'
  assert.equal((await user.work(leaves)).result.outcome, 'unchanged')
  mkdirSync(join(user.project.root, 'kept', '__pycache__'), { recursive: true })
  write('kept/__pycache__/a.pyc', 'old\n')
  user.project.commitAll('a cache of the project')
  const { result } = await user.work(`${leaves}; echo new > kept/__pycache__/a.pyc`)
  assert.deepEqual(
    result.changes.map(({ path }) => path),
    ['kept/__pycache__/a.pyc'],
    'the control',
  )
})

test('A13: a user whose git signs commits is told that ours are not signed', async () => {
  user.project.commitAll('all')
  user.project.git('config', 'commit.gpgsign', 'true')
  const { result, id } = await user.work('sh echo x > unsigned.txt')
  user.project.git('config', 'commit.gpgsign', 'false')
  assert.match(
    result.notes.join('\n'),
    /does not sign commits; to sign it: git switch agentpod\/\S+ && git commit --amend/,
  )
  assert.equal((await user.work('sh echo x > unsigned.txt')).result.notes.join(), '', 'the control')
  user.project.git('config', 'commit.gpgsign', 'true')
  const { stderr } = await user.cli(['merge', id])
  user.project.git('config', '--unset', 'commit.gpgsign')
  assert.match(stderr, /does not sign commits/)
})

test('A3: Ctrl-C in `follow` leaves the run working', async () => {
  const [id = ''] = (
    await user.ok(['run', ...AGENT, '--detach', '--', 'sleep 4000\nsh echo x > left.txt'])
  ).split('\n')
  const child = user.start(['follow', id])
  let said = ''
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString('utf8')
  })
  const closed = new Promise((resolve) => child.once('close', resolve))
  await until('it is followed', async () =>
    (await user.runs()).some((one) => one.id === id && one.state === 'working'),
  )
  await new Promise((resolve) => setTimeout(resolve, 1000))
  child.kill('SIGINT')
  await closed
  assert.match(said, /stopped watching; the runs continue/)
  const done = worked(await user.cli(['follow', '--json', id]))
  assert.equal(done.result.outcome, 'changed')
  assert.deepEqual(user.changed(done.result.branch ?? ''), ['left.txt'])
})

// `test/e2e/agents.test.ts` has the connections.
test('A6: a host given by --base-url is allowed as it is, also in a private network', async () => {
  const ruleOf = async (options: readonly string[]): Promise<string> => {
    const { id } = await user.work('say hello', [...AGENT, ...options])
    const info = (await user.runs()).find((one) => one.id === id)
    const shown = await user.ok(['policy', 'show', '--json', info?.sandboxId ?? ''])
    return JSON.stringify(JSON.parse(shown))
  }
  const gateway = 'gateway.internal'
  assert.ok(!(await ruleOf([])).includes(gateway), 'the control: nothing opens it by itself')
  const shown = await ruleOf(['--base-url', `https://${gateway}:8443/v1`])
  assert.match(shown, /"host":"gateway\.internal","ports":\[8443\][^{}]*"private":true/)
  assert.match(await ruleOf(['--base-url', 'http://10.0.0.5:11434/v1']), /"named":\["10\.0\.0\.5:11434"\]/)
  const own = await user.cli(['run', ...AGENT, '--base-url', 'http://127.0.0.1:11434', '--', 'say x'])
  assert.equal(own.code, 2)
  assert.match(own.stderr, /this machine itself[\s\S]*on another machine/)
})

test('A7: the output of a command is shown while it runs', async () => {
  const { events } = await user.work('tool echo one; sleep 1; echo two')
  const told = events.flatMap(({ at, body }) =>
    body.type === 'tool' ? [{ at: Date.parse(at), status: body.status, output: body.output }] : [],
  )
  assert.deepEqual(
    told.map(({ status, output }) => [status, output]),
    [
      ['started', undefined],
      ['running', 'one\n'],
      ['running', 'one\ntwo\n'],
      ['done', undefined],
    ],
  )
  assert.ok((told[3]?.at ?? 0) - (told[1]?.at ?? 0) >= 500, 'the first line was told at once')
})

test('A9: a run whose sandbox is gone says why, and how many are kept can be set', async () => {
  const { id } = await user.work('sh echo x > gone.txt')
  const info = (await user.runs()).find((one) => one.id === id)
  await user.ok(['destroy', info?.sandboxId ?? ''])
  const { code, stderr } = await user.cli(['send', id, 'more'])
  assert.equal(code, 6)
  assert.match(stderr, /was removed, so it cannot continue[\s\S]*at most 100 of them \(AGENTPOD_KEPT_RUNS/)
})

test('A10: the misspelt name of an agent is said before anything is made', async () => {
  const before = await user.ok(['ls', '--all', '--json'])
  const { code, stderr } = await user.cli(['run', 'cluade', 'fix it'])
  assert.equal(code, 2)
  assert.match(stderr, /there is no agent "cluade"[\s\S]*did you mean claude\?/)
  assert.equal(await user.ok(['ls', '--all', '--json']), before)
})

test('A11: what cannot be asked of an agent, and a branch in the way, are found before anything is built', async () => {
  const env = { OPENAI_API_KEY: 'made-up' }
  const asked = await user.cli(['run', 'aider', '--ask', 'fix it'], { env, timeoutMs: 20_000 })
  assert.equal(asked.code, 2)
  assert.match(asked.stderr, /cannot be made to ask/)
  user.project.git('branch', 'taken')
  const before = (await user.runs()).length
  const { code, stderr } = await user.cli([
    'run',
    ...AGENT,
    '--branch',
    'taken/{slug}-{agent}-{n}',
    '--',
    'sh echo x > x',
  ])
  assert.notEqual(code, 0)
  assert.match(stderr, /cannot be created, because there is a branch taken/)
  assert.equal((await user.runs()).length, before)
})

test('A17: --time needs a unit, and --profile a file with profiles', async () => {
  const time = await user.cli(['run', ...AGENT, '--time', '5', '--', 'say x'])
  assert.equal(time.code, 2)
  assert.match(time.stderr, /--time 5 has no unit[\s\S]*5m/)
  const profile = await user.cli(['run', ...AGENT, '--profile', 'ci', '--', 'say x'])
  assert.equal(profile.code, 2)
  assert.match(profile.stderr, /no profile "ci"/)
})

test('A17: the prompt comes by standard input or from a file, and `ls` names the run of a kept sandbox', async () => {
  const options = ['--acp', '--agent-command', 'exec node tools/agent.mjs', '--json']
  const piped = worked(
    await user.cli(['run', 'custom', ...options, '-'], { input: 'sh echo x > piped.txt\n' }),
  )
  assert.deepEqual(
    piped.result.changes.map(({ path }) => path),
    ['piped.txt'],
  )
  write('task.md', 'sh echo x > filed.txt\n')
  const filed = worked(await user.cli(['run', 'custom', ...options, '--prompt-file', 'task.md']))
  assert.ok(filed.result.changes.some(({ path }) => path === 'filed.txt'))
  const optioned = worked(await user.cli(['run', ...AGENT, '--json', '--prompt-file', 'task.md']))
  assert.ok(optioned.result.changes.some(({ path }) => path === 'filed.txt'))
  const nothing = await user.cli(['run', '--memory', '1g'])
  assert.deepEqual([nothing.code, /missing argument: which agent or command/.test(nothing.stderr)], [2, true])
  assert.match(await user.ok(['ls', '--all']), new RegExp(`\\(run ${piped.id}\\)`))

  write('task.md', 'sh echo x > sent-from-file.txt\n')
  const fromFile = worked(await user.cli(['send', '--json', '--prompt-file', 'task.md', piped.id]))
  assert.ok(fromFile.result.changes.some(({ path }) => path === 'sent-from-file.txt'))
  rmSync(join(user.project.root, 'task.md'))
  const input = 'sh echo x > sent-by-pipe.txt\n'
  for (const words of [[piped.id, '-'], [piped.id]]) {
    const sent = worked(await user.cli(['send', '--json', ...words], { input }))
    assert.equal(sent.id, piped.id)
  }
  const empty = await user.cli(['send', piped.id], { input: '' })
  assert.deepEqual([empty.code, /what should the agent do/.test(empty.stderr)], [2, true])
})
