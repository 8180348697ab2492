/**
 * Runs of an agent that executes its prompt: their outcomes, their results, and that the user's repository is
 * not damaged.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { AgentPod } from '../../src/client/client.ts'
import type { Run, RunInfo } from '../../src/client/runs.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { GitProject } from '../../src/sync/testing/git-project.ts'
import {
  AcpUser,
  AGENT,
  assertInOrder,
  bareRun,
  bodiesOf,
  saidIn,
  statesIn,
  type Worked,
  worked,
} from '../support/acp-user.ts'
import { filesOf, type User } from '../support/agent-runs.ts'
import { tcpRequest } from '../support/tcp.ts'
import { isAlive, ROOT, until, World } from '../support/world.ts'

const world = new World()
let pod: AgentPod
let user: AcpUser

before(async () => {
  pod = world.client()
  user = AcpUser.with(world)
  // The first makes the copy that the others begin with.
  await user.work('say ready')
})
after(() => world[Symbol.asyncDispose]())

interface Case {
  readonly prompt: string
  readonly options?: readonly string[]
  readonly outcome: string
  readonly code: number
  readonly reason?: RegExp
  /** Files that the branch changes; no branch where it is left out. */
  readonly files?: readonly string[]
  readonly said?: RegExp
  readonly more?: (one: Worked) => unknown
}

const COMMAND = (command: string): readonly string[] => ['--agent', 'custom', '--agent-command', command]
const ACP = (command: string): readonly string[] => ['--agent', 'acp', '--agent-command', command]
const DAY = '-c user.name=Agent -c user.email=agent@example.com'

const ENDINGS: Readonly<Record<string, Case>> = {
  'it edits files': {
    prompt: 'sh echo two >> a.txt; mkdir -p src; echo new > src/new.txt',
    outcome: 'changed',
    code: 0,
    files: ['a.txt', 'src/new.txt'],
  },
  'it only talks': {
    prompt: 'say there is nothing to do',
    outcome: 'unchanged',
    code: 20,
    said: /nothing to do/,
  },
  'what it changes it changes back': {
    prompt: 'sh echo two >> a.txt; echo one > a.txt',
    outcome: 'unchanged',
    code: 20,
  },
  'a command that ends with 0 having done nothing': {
    prompt: 'do something',
    options: COMMAND('true'),
    outcome: 'unchanged',
    code: 20,
  },
  'a command that works': {
    prompt: 'name.txt',
    options: COMMAND('echo "I write $AGENTPOD_PROMPT"; echo x > "$AGENTPOD_PROMPT"'),
    outcome: 'changed',
    code: 0,
    files: ['name.txt'],
    said: /I write name\.txt/,
  },
  'a command that fails': {
    prompt: 'fail',
    options: COMMAND('echo broken >&2; exit 3'),
    outcome: 'failed',
    code: 22,
    reason: /exited with code 3.*broken/,
  },
  'a program that is not there': {
    prompt: 'anything',
    options: ACP('exec no-such-agent --acp'),
    outcome: 'failed',
    code: 22,
    reason: /127.*not found/,
  },
  'it ends with 0 without a word': {
    prompt: 'anything',
    options: ACP('true'),
    outcome: 'failed',
    code: 22,
    reason: /exited with code 0/,
  },
  'it ends with 0 in the middle, and what it did until then is a branch': {
    prompt: 'sh echo half > half.txt\nexit 0',
    outcome: 'failed',
    code: 22,
    reason: /exited with code 0 before it was done/,
    files: ['half.txt'],
  },
  'it ends with 1 and complains': {
    prompt: 'complain the model is on holiday\nexit 1',
    outcome: 'failed',
    code: 22,
    reason: /exited with code 1.*on holiday/,
  },
  'it says itself that it failed': {
    prompt: 'fail the key was refused',
    outcome: 'failed',
    code: 22,
    reason: /the key was refused/,
  },
  'the model refuses': { prompt: 'refuse', outcome: 'denied', code: 21, reason: /refused/ },
  'it never ends, and is told to when its time is over': {
    prompt: 'sh echo half > half.txt\nforever',
    // The time includes the start of the agent, which takes longer on a busy machine.
    options: [...AGENT, '--time', '3s'],
    outcome: 'timed_out',
    code: 23,
    reason: /3 seconds/,
    files: ['half.txt'],
  },
  'it never ends and does not listen': {
    prompt: 'sh echo half > half.txt\nstubborn',
    options: [...AGENT, '--time', '3s'],
    outcome: 'timed_out',
    code: 23,
    files: ['half.txt'],
  },
  'bytes that are no text': {
    prompt: `raw process.stdout.write(Buffer.from(Array.from({ length: 100000 }, (_, n) => n % 256))); process.stdout.write('\\n')\nsay after`,
    outcome: 'unchanged',
    code: 20,
    said: /after/,
  },
  'a line of 20 MB': {
    prompt: `raw for (let n = 0; n < 20; n++) { process.stdout.write('x'.repeat(1 << 20)); await flushed() } process.stdout.write('\\n')\nsay after`,
    outcome: 'unchanged',
    code: 20,
    said: /after/,
  },
  'half a message, and answers to questions that nobody asked': {
    prompt: [
      `raw process.stdout.write('{"jsonrpc":"2.0","method":"session/upd\\n')`,
      `raw process.stdout.write('null\\n[]\\n"x"\\n12\\n{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}\\n')`,
      `raw process.stdout.write('{"__proto__":{"polluted":true},"method":"session/update","params":null}\\n')`,
      'say after',
    ].join('\n'),
    outcome: 'unchanged',
    code: 20,
    said: /after/,
  },
  'it asks the client for its files and for a terminal': {
    prompt: `raw write({ id: 'f', method: 'fs/read_text_file', params: { path: '/etc/passwd' } }); write({ id: 't', method: 'terminal/create', params: { command: 'id' } })\nsay after`,
    outcome: 'unchanged',
    code: 20,
    said: /after/,
  },
  'a flood': {
    prompt: 'count 3000 0\nsay after',
    outcome: 'unchanged',
    code: 20,
    more: ({ events }) => {
      const said = saidIn(events)
      assert.equal(said, `${Array.from({ length: 3000 }, (_, n) => `<${n + 1}>`).join('')}after`)
    },
  },
  'a rule about plain words allows no command that does more': {
    prompt: 'ask echo yes > asked.txt',
    options: [...AGENT, '--permission', 'bash=deny', '--permission', 'bash:echo yes*=allow'],
    outcome: 'denied',
    code: 21,
    said: /refused: echo yes/,
    more: ({ events }) => assert.equal(bodiesOf(events, 'permission.answered')[0]?.by, 'rule'),
  },
  'it is allowed by a rule about the very command': {
    prompt: 'ask touch asked.txt',
    options: [...AGENT, '--permission', 'bash=deny', '--permission', 'bash:touch *=allow'],
    outcome: 'changed',
    code: 0,
    files: ['asked.txt'],
    said: /allowed/,
  },
  'it is refused by a rule': {
    prompt: 'ask touch asked.txt\nwrite other.txt',
    options: [...AGENT, '--permission', 'bash=deny', '--permission', 'write:other*=deny'],
    outcome: 'denied',
    code: 21,
    said: /refused: touch asked\.txt.*refused: other\.txt/,
    more: ({ result }) => assert.equal(result.denials, 2),
  },
  'its last act is to reach for a host that nobody allowed': {
    prompt: 'sh curl -sS -m 5 https://denied.example/ 2>&1',
    outcome: 'denied',
    code: 21,
    reason: /refused/,
    more: ({ events }) => assert.equal(bodiesOf(events, 'network.denied')[0]?.host, 'denied.example'),
  },
  'it reaches for a host that nobody allowed': {
    prompt: 'sh curl -sS -m 5 https://denied.example/ 2>&1\nsleep 500',
    outcome: 'denied',
    code: 21,
    reason: /refused/,
    more: ({ events }) => {
      const [denied] = bodiesOf(events, 'network.denied')
      assert.deepEqual([denied?.host, denied?.port], ['denied.example', 443])
      const [asked] = bodiesOf(events, 'permission.asked')
      assert.deepEqual(asked?.about.subject, 'denied.example:443')
    },
  },
  'it commits by itself': {
    prompt: `sh echo x > mine.txt; git add -A; git ${DAY} commit -qm 'a subject of its own'; echo y > later.txt`,
    outcome: 'changed',
    code: 0,
    files: ['later.txt', 'mine.txt'],
    more: ({ result }) =>
      assert.match(
        user.project.git('log', '-1', '--format=%B', result.branch ?? ''),
        /^- a subject of its own$/m,
      ),
  },
  'it rewrites history': {
    prompt: `sh git ${DAY} commit -q --amend -m rewritten; git checkout -q --orphan other; git ${DAY} commit -qm orphan; git branch -D main; git reflog expire --expire=now --all; git gc -q --prune=now; echo x > mine.txt`,
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
  },
  'it deletes .git': {
    prompt: 'sh rm -rf .git; echo x > mine.txt',
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
  },
  'it makes .git a link': {
    prompt: 'sh rm -rf .git; ln -s /etc .git; echo x > mine.txt',
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
  },
  'it makes .git a file that leads elsewhere': {
    prompt: 'sh rm -rf .git; echo "gitdir: /etc" > .git; echo x > mine.txt',
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
  },
  'a file that is too large is left out and named': {
    prompt: 'sh truncate -s 200M huge.bin; echo x > mine.txt',
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
    more: ({ result }) => assert.deepEqual(result.tooLarge, [{ path: 'huge.bin', sizeBytes: 200 << 20 }]),
  },
  'names that git hates': {
    prompt: `sh printf x > ' lead'; printf x > -- 2>/dev/null; printf x > ./-dash; printf x > 'q"uote'; printf x > 'back\\slash'; mkdir -p .GIT sub/.git~1; printf x > .GIT/config; printf x > git~1; printf x > "$(printf 'new\\nline')"; printf x > "$(printf 'esc\\033[31m')"; printf x > 'trail '`,
    outcome: 'changed',
    code: 0,
    more: ({ result, stderr }) => {
      const names = user.project.git('ls-tree', '-r', '-z', '--name-only', result.branch ?? '').split('\0')
      assert.ok(
        names.includes(' lead') && names.includes('-dash') && names.includes('q"uote'),
        names.join('|'),
      )
      assert.ok(
        !names.some((name) => /\p{Cc}/u.test(name) || /^(\.GIT\/|git~1$)/i.test(name)),
        names.join('|'),
      )
      assert.ok(!stderr.includes('\u001b[31m'))
    },
  },
  'links that lead out, and into .git': {
    prompt:
      'sh ln -s /etc/passwd out; ln -s ../../.. up; ln -s .git/config inner; ln -s a.txt fine; echo x > mine.txt',
    outcome: 'changed',
    code: 0,
    files: ['fine', 'mine.txt'],
    more: ({ result }) => assert.deepEqual([...result.leftOut].sort(), ['inner', 'out', 'up']),
  },
  'it writes outside of its workspace': {
    prompt: `sh echo '[core]' > ~/.gitconfig; printf '\\tfsmonitor = touch ~/owned\\n[alias]\\n\\tdiff = !touch ~/owned\\n' >> ~/.gitconfig; echo x > ~/outside.txt; echo x > mine.txt`,
    outcome: 'changed',
    code: 0,
    files: ['mine.txt'],
  },
  'the result cannot be taken: what it was prepared with is gone': {
    prompt: 'sh rm -rf ~/.agentpod; echo x > mine.txt',
    outcome: 'failed',
    code: 22,
    reason: /result/,
  },
}

describe('how a run ends', { concurrency: 3 }, () => {
  let untouched: Map<string, string>
  before(() => {
    untouched = user.untouched()
  })

  for (const [name, one] of Object.entries(ENDINGS))
    test(`RUN-7 a run ends: ${name}`, async () => {
      const done = await user.work(one.prompt, one.options)
      const { result, events, code } = done
      assert.deepEqual([result.outcome, code], [one.outcome, one.code], `${result.reason}\n${done.stderr}`)
      if (one.reason) assert.match(result.reason ?? '', one.reason)
      if (one.said) assert.match(saidIn(events), one.said)
      assertInOrder(events)
      const states = statesIn(events)
      assert.deepEqual([states[0], states.at(-1)], ['queued', 'ended'])
      if (one.files) {
        const { branch } = result
        assert.ok(branch, 'there is a branch')
        assert.deepEqual(user.changed(branch), [...one.files].sort())
        assert.equal(user.project.git('rev-list', '--count', `main..${branch}`), '1')
        assert.match(
          user.project.git('log', '-1', '--format=%(trailers:key=AgentPod-Run,valueonly)', branch),
          new RegExp(`^${done.id}$`, 'm'),
        )
      } else if (!one.more) assert.equal(result.branch, null)
      await one.more?.(done)
    })

  after(() => {
    assert.deepEqual(user.untouched(), untouched, 'nothing in the repository but branches is new')
    user.project.git('fsck', '--strict')
  })
})

describe('files that run later on the host', () => {
  test('RUN-17 files that would run on the host are left out and named, and taken with a yes; none of them runs', async () => {
    const proof = join(user.project.home, 'owned')
    const program = `#!/bin/sh\\ntouch ${proof}\\n`
    const prompt = [
      'sh echo x > mine.txt',
      `sh printf '${program}' > .git/hooks/post-checkout; printf '${program}' > .git/hooks/reference-transaction; chmod +x .git/hooks/*`,
      `sh git config core.fsmonitor "touch ${proof}"; git config core.hooksPath .hooks; mkdir .hooks; printf '${program}' > .hooks/post-commit; chmod +x .hooks/*`,
      `sh printf 'touch ${proof}\\n' > .envrc; printf '* filter=own\\n' > .gitattributes`,
      `sh mkdir .vscode .github .github/workflows; echo '{}' > .vscode/tasks.json; echo 'on: push' > .github/workflows/x.yml`,
      `sh printf '{"scripts":{"preinstall":"touch ${proof}"}}' > package.json`,
    ].join('\n')
    const { result, code, id } = await user.work(prompt)
    assert.equal(code, 0)
    const gated = [
      '.envrc',
      '.gitattributes',
      '.github/workflows/x.yml',
      '.vscode/tasks.json',
      'package.json',
    ]
    assert.deepEqual(result.leftOut.filter((path) => !path.startsWith('.hooks/')).toSorted(), gated)
    for (const path of user.changed(result.branch ?? ''))
      assert.ok(['mine.txt', '.hooks/post-commit'].includes(path), path)
    await user.ok(['branch', 'make', id, '--name', 'agentpod/all-of-it', '--with-executables'])
    const all = user.changed('agentpod/all-of-it')
    for (const path of [...gated, 'mine.txt']) assert.ok(all.includes(path), path)
    const taken = await user.work(prompt, [...AGENT, '--with-executables'])
    assert.deepEqual(taken.result.leftOut, [])
    assert.ok(user.changed(taken.result.branch ?? '').includes('package.json'))
    assert.ok(!existsSync(proof))
    await user.ok(['diff', id])
    assert.ok(!existsSync(proof))
  })
})

describe('follow-ups', () => {
  test('RUN-3 a message to a running agent waits, and becomes a turn of its own in the same conversation', async () => {
    const child = user.start(['run', ...AGENT, '--json', '--', 'sleep 1500\nsh echo 1 > first.txt'])
    const answer = textOf(child)
    const run = await newestAtWork()
    await user.ok(['send', '--detach', run, 'sh echo 2 > second.txt\nrecall'])
    const { code, stdout, stderr } = await answer
    const done = worked({ code, stdout, stderr })
    assert.equal(code, 0)
    assert.deepEqual(user.changed(done.result.branch ?? ''), ['first.txt', 'second.txt'])
    assert.match(saidIn(done.events), /earlier: session-\S+ "sleep 1500/)
    assert.doesNotMatch(saidIn(done.events), /told again/)
    const info = await infoOf(run)
    assert.deepEqual([info.turn, info.outcome], [2, 'changed'])
  })

  test('RUN-3 a run continues after its end, also on another server', async () => {
    const first = await user.work('sh echo 1 > one.txt')
    await killServer()
    const second = worked(await user.cli(['send', '--json', first.id, 'sh echo 2 > two.txt; ls\nrecall']))
    assert.equal(second.code, 0, second.stderr)
    assert.match(saidIn(second.events), /one\.txt\ntools\ntwo\.txt[\s\S]*earlier: session-\S+ "sh echo 1/)
    assert.deepEqual(user.changed(second.result.branch ?? ''), ['two.txt'], 'a commit on the first turn')
    assert.notEqual(second.result.branch, first.result.branch)
    assert.deepEqual(user.changed(first.result.branch ?? ''), ['one.txt'], 'the first branch stays as it was')
  })

  test('a run that cannot continue says so', async () => {
    const { id } = await user.work('x', COMMAND('true'))
    const { code, stderr } = await user.cli(['send', id, 'more'])
    assert.notEqual(code, 0)
    assert.match(stderr, /cannot continue a conversation/)
  })
})

describe('questions', () => {
  const asking = { bash: [{ pattern: '*', decision: 'ask' as const }] }

  async function askedOf(run: Run): Promise<string> {
    for await (const { body } of run.follow()) if (body.type === 'permission.asked') return body.permission
    throw new Error('it never asked')
  }

  test('RUN-2 questions are answered through the API, each once', async () => {
    const run = await pod.runs.start(bareRun('ask echo one\nask echo two', { permissions: asking }))
    const first = await askedOf(run)
    assert.equal((await run.refresh()).info.state, 'waiting')
    await run.answer(first, 'allow')
    await assert.rejects(run.answer(first, 'allow'), (error) => isAgentPodError(error, 'not_found'))
    await until(
      'the second is asked',
      async () => bodiesOf(await run.events(), 'permission.asked').length === 2,
    )
    await user.ok([
      'answer',
      run.id,
      bodiesOf(await run.events(), 'permission.asked')[1]?.permission ?? '',
      'deny',
    ])
    const { info } = await run.ended()
    assert.deepEqual([info.outcome, info.denials], ['denied', 1])
    assert.match(saidIn(await run.events()), /allowed: one\n+refused: echo two/)
    assert.deepEqual(
      bodiesOf(await run.events(), 'permission.answered').map(({ answer, by }) => [answer, by]),
      [
        ['allow', 'user'],
        ['deny', 'user'],
      ],
    )
  })

  test('RUN-2 unanswered questions are denied, also when the server was killed meanwhile', async () => {
    const limits = { answerMs: 1500 }
    const run = await pod.runs.start(bareRun('ask touch x', { permissions: asking, limits }))
    await askedOf(run)
    await killServer()
    const { info } = await run.ended()
    assert.equal(info.outcome, 'denied')
    const [answered] = bodiesOf(await run.events(), 'permission.answered')
    assert.deepEqual([answered?.answer, answered?.by], ['deny', 'timeout'])
    assert.match(saidIn(await run.events()), /refused: touch x/)
  })
})

describe('a killed server', () => {
  test('RUN-8 RUN-9 when the server is killed the run works on, no event is lost or repeated, and its branch is made', async () => {
    const child = user.start(['run', ...AGENT, '--json', '--', 'count 150 20\nsh echo x > survived.txt'])
    const answer = textOf(child)
    const run = await newestAtWork()
    const handle = await pod.runs.get(run)
    for (const after of [20, 60, 100]) {
      await until(`${after} are said`, async () => saidIn(await handle.events()).includes(`<${after}>`))
      await killServer()
      await world.ok(['ls'])
    }
    const { code, stdout, stderr } = await answer
    const done = worked({ code, stdout, stderr })
    assert.equal(code, 0, stderr)
    assert.equal(saidIn(done.events), Array.from({ length: 150 }, (_, n) => `<${n + 1}>`).join(''))
    assertInOrder(done.events)
    assert.deepEqual(user.changed(done.result.branch ?? ''), ['survived.txt'])
    const stored = await handle.events()
    assert.deepEqual(
      stored.map(({ seq }) => seq),
      done.events.map(({ seq }) => seq),
      'what was followed is what is stored',
    )
  })
})

describe('other ways to end and to watch a run', () => {
  test('`--detach` leaves the run working, and `follow` makes the branch, once', async () => {
    const [id = ''] = (
      await user.ok(['run', ...AGENT, '--detach', '--', 'sleep 300\nsh echo x > detached.txt'])
    ).split('\n')
    const first = worked(await user.cli(['follow', '--json', id]))
    assert.equal(first.code, 0)
    assert.deepEqual(user.changed(first.result.branch ?? ''), ['detached.txt'])
    assert.equal(statesIn(first.events)[0], 'queued', 'from the beginning')
    const again = worked(await user.cli(['follow', '--json', id]))
    assert.equal(again.result.branch, first.result.branch)
    assert.equal(user.branches().filter((name) => name === first.result.branch).length, 1)
  })

  test('RUN-7 `cancel` ends a run, and its changes until then are a branch', async () => {
    const [id = ''] = (
      await user.ok(['run', ...AGENT, '--detach', '--', 'sh echo x > until-then.txt\nsay written\nforever'])
    ).split('\n')
    const run = await pod.runs.get(id)
    await until('the file is there', async () => saidIn(await run.events()).includes('written'))
    await user.ok(['cancel', id])
    const done = worked(await user.cli(['follow', '--json', id]))
    assert.deepEqual([done.code, done.result.outcome], [130, 'canceled'])
    assert.deepEqual(user.changed(done.result.branch ?? ''), ['until-then.txt'])
  })

  test('RUN-7 an interrupt cancels a run, and the answer waits for its end', async () => {
    const child = user.start(['run', ...AGENT, '--json', '--', 'say ready\nforever'])
    const answer = textOf(child)
    await newestAtWork()
    child.kill('SIGINT')
    const { code, stdout, stderr } = await answer
    assert.deepEqual([code, worked({ code, stdout, stderr }).result.outcome], [130, 'canceled'])
  })

  test('two calls at once each have a run and a branch of their own', async () => {
    const both = await Promise.all(
      ['left', 'right'].map((name) => user.work(`sh sleep 0.3; echo ${name} > side.txt`)),
    )
    assert.deepEqual(
      both.map(({ result }) => user.project.git('show', `${result.branch}:side.txt`)),
      ['left', 'right'],
    )
    const same = await Promise.all([1, 2].map(() => user.work('sh echo same > same.txt')))
    assert.equal(new Set(same.map(({ result }) => result.branch)).size, 2)
    assert.ok(same.every(({ code }) => code === 0))
  })

  test('`runs rm` removes the run and its sandbox, and its branch stays', async () => {
    const { id, result } = await user.work('sh echo x > removed.txt')
    const { sandboxId } = await infoOf(id)
    await user.ok(['runs', 'rm', id])
    await assert.rejects(pod.runs.get(id), (error) => isAgentPodError(error, 'not_found'))
    assert.equal((await pod.get(sandboxId ?? '')).info.state, 'destroyed')
    assert.ok(user.branches().includes(result.branch ?? ''))
    assert.ok(!existsSync(join(world.home, 'runs', id)))
    const { code, stderr } = await user.cli(['send', id, 'more'])
    assert.notEqual(code, 0)
    assert.match(stderr, /no run/)
  })

  test('`attach --shell` opens a shell in the workspace, and the changes made there come back', async () => {
    const { id } = await user.work('sh echo x > agent.txt')
    const script = [
      join(ROOT, 'test/support/drive-terminal.py'),
      join(ROOT, 'agentpod'),
      'attach',
      '--shell',
      id,
    ]
    const child = spawn('/usr/bin/python3', script, {
      cwd: user.project.root,
      env: { ...process.env, AGENTPOD_HOME: world.home, HOME: user.project.home, TERM: 'xterm' },
    })
    const steps = [
      { expect: '\\$ ' },
      { send: 'ls; echo by-hand > person.txt\n' },
      { expect: 'agent.txt' },
      { send: 'exit\n' },
    ]
    child.stdin.end(JSON.stringify(steps))
    const { stdout } = await textOf(child)
    const { stuck, screen } = JSON.parse(stdout) as { stuck: string | null; screen: string }
    assert.equal(stuck, null, screen)
    const [newest] = (await user.runs()).filter((run) => run.id === id)
    assert.deepEqual(user.changed(newest?.branch ?? ''), ['person.txt'], screen)
  })
})

describe('unusual repositories', { concurrency: 3 }, () => {
  const place = (name: string): GitProject =>
    new GitProject(world.directory(), process.env['PATH'] ?? '', name)
  const agentIn = (project: GitProject): AcpUser => new AcpUser(world, project)

  test('RUN-19 a run outside a repository gives one error that says what to do', async () => {
    const { code, stderr } = await agentIn(place('none')).cli(['run', ...AGENT, 'say hello'])
    assert.notEqual(code, 0)
    assert.match(stderr, /not .*a git repository/)
    assert.match(stderr, /git init/)
  })

  test('RUN-19 a run in a bare repository gives one error that says what to do', async () => {
    const project = place('bare')
    project.git('init', '-q', '--bare')
    const { code, stderr } = await agentIn(project).cli(['run', ...AGENT, 'say hello'])
    assert.notEqual(code, 0)
    assert.match(stderr, /bare|working/)
  })

  test('RUN-19 a run works in a repository without a commit', async () => {
    const project = place('unborn').init()
    project.write('tools/agent.mjs', user.project.git('show', 'main:tools/agent.mjs'))
    const { code, result, stderr } = await agentIn(project).work('sh echo x > first.txt')
    assert.equal(code, 0, stderr)
    const files = project.git('ls-tree', '-r', '--name-only', result.branch ?? '').split('\n')
    assert.deepEqual(files, ['first.txt', 'tools/agent.mjs'])
    assert.throws(() => project.git('rev-parse', '--verify', 'HEAD'), 'it has none afterwards either')
  })

  test('RUN-19 a run works with a detached HEAD', async () => {
    const own = AcpUser.with(world, 'detached')
    own.project.git('checkout', '-q', '--detach')
    const head = own.project.git('rev-parse', 'HEAD')
    const { code, result } = await own.work('sh echo x > new.txt')
    assert.equal(code, 0)
    assert.deepEqual(own.changed(result.branch ?? ''), ['new.txt'])
    assert.equal(own.project.git('rev-parse', `${result.branch}~1`), head)
    assert.throws(() => own.project.git('symbolic-ref', '-q', 'HEAD'))
  })

  test('RUN-12 RUN-14 uncommitted files go in and are a commit of their own; --clean leaves them out', async () => {
    const own = AcpUser.with(world, 'dirty')
    own.project.write('a.txt', 'uncommitted\n')
    own.project.write('untracked.txt', 'untracked\n')
    own.project.write('.gitignore', 'secret.env\n')
    own.project.write('secret.env', 'KEY=1\n')
    const before_ = own.untouched()
    const files = filesOf(own.project.root)
    const { result, events } = await own.work('sh cat a.txt untracked.txt; ls -A; echo x > new.txt')
    assert.match(saidIn(events), /^uncommitted\nuntracked\n/)
    assert.doesNotMatch(saidIn(events), /secret\.env/)
    const { branch } = result
    assert.equal(own.project.git('rev-list', '--count', `main..${branch}`), '2')
    assert.deepEqual(own.changed(branch ?? ''), ['new.txt'])
    assert.deepEqual(own.changed(`${branch}~1`), ['.gitignore', 'a.txt', 'untracked.txt'])
    const clean = await own.work('sh cat a.txt; ls; echo x > new.txt', [...AGENT, '--clean'])
    assert.match(saidIn(clean.events), /^one\na\.txt\ntools\n/)
    assert.equal(own.project.git('rev-list', '--count', `main..${clean.result.branch}`), '1')
    assert.deepEqual(own.untouched(), before_)
    assert.deepEqual(filesOf(own.project.root), files)
  })

  test('RUN-12 RUN-19 a submodule with changes of its own goes in as it is', async () => {
    const inner = place('inner').init()
    inner.write('inner.txt', 'inner\n')
    inner.commitAll()
    const own = AcpUser.with(world, 'outer')
    own.project.git('submodule', '--quiet', 'add', inner.root, 'sub')
    own.project.commitAll('with a submodule')
    own.project.write('sub/inner.txt', 'changed\n')
    const before_ = own.untouched()
    const { code, result, events, stderr } = await own.work(
      'sh cat sub/inner.txt; echo x > new.txt; echo more > sub/more.txt',
    )
    assert.equal(code, 0, stderr)
    assert.match(saidIn(events), /^changed\n/)
    assert.ok(own.changed(result.branch ?? '').includes('new.txt'))
    assert.deepEqual(own.untouched(), before_)
  })

  test('RUN-19 an untracked file of 2 GB is refused at once, by name', async () => {
    const own = AcpUser.with(world, 'huge')
    const huge = join(own.project.root, 'disk.img')
    writeFileSync(huge, '')
    truncateSync(huge, 2 * 1024 ** 3)
    const startedAt = performance.now()
    const { code, stderr } = await own.cli(['run', ...AGENT, 'say hello'])
    assert.notEqual(code, 0)
    assert.match(stderr, /disk\.img/)
    assert.match(stderr, /\.gitignore|--clean/)
    assert.ok(performance.now() - startedAt < 5000)
    const { code: clean } = await own.cli(['run', ...AGENT, '--clean', 'sh echo x > new.txt'])
    assert.equal(clean, 0, 'what it says helps')
    rmSync(huge)
  })

  test('RUN-19 an existing branch is left alone', async () => {
    const own = AcpUser.with(world, 'taken')
    own.project.git('branch', 'agentpod/sh-echo-x-new-txt-acp-1')
    const { result } = await own.work('sh echo x > new.txt')
    assert.notEqual(result.branch, 'agentpod/sh-echo-x-new-txt-acp-1')
    assert.deepEqual(own.changed(result.branch ?? ''), ['new.txt'])
    assert.equal(
      own.project.git('rev-parse', 'agentpod/sh-echo-x-new-txt-acp-1'),
      own.project.git('rev-parse', 'main'),
    )
    own.project.git('branch', 'blocked')
    const blocked = await own.cli([
      'run',
      ...AGENT,
      '--branch',
      'blocked/{slug}-{agent}-{n}',
      '--',
      'sh echo y > new.txt',
    ])
    assert.notEqual(blocked.code, 0)
    assert.match(blocked.stderr, /blocked/)
  })
})

describe('mistakes', { concurrency: 3 }, () => {
  const wrong: Readonly<Record<string, readonly [words: readonly string[], error: RegExp]>> = {
    'an agent that there is not': [['run', '--agent', 'cluade', 'hello'], /no agent "cluade"[\s\S]*claude/],
    'no key': [
      ['run', 'claude', 'hello'],
      /no key for Claude Code’s model[\s\S]*ANTHROPIC_API_KEY[\s\S]*agentpod secret set/,
    ],
    'an empty prompt': [['run', ...AGENT, ' '], /the prompt is empty/],
    'no prompt': [['run', 'claude'], /the prompt is empty/],
    'no command for an agent that is one': [['run', '--agent', 'acp', 'hello'], /--agent-command/],
    'too many at once': [['run', '--agent', 'acp:17', 'hello'], /1 to 16/],
    'a time that is none': [['run', ...AGENT, '--time', 'soon', 'hello'], /time/],
    'no money': [['run', ...AGENT, '--max-cost', '0', 'hello'], /max-cost/],
    'a permission that there is not': [
      ['run', ...AGENT, '--permission', 'bsah=deny', 'hello'],
      /did you mean bash/,
    ],
    'a branch without an end': [['run', ...AGENT, '--branch', 'main', 'hello'], /branch/],
    'questions of an agent that asks none': [
      ['run', '--agent', 'custom', '--agent-command', 'true', '--permission', 'bash=ask', 'hello'],
      /cannot be made to ask/,
    ],
    'a run that there is not': [['follow', 'runzzzzzzzz'], /no run/],
  }
  for (const [name, [words, error]] of Object.entries(wrong))
    test(`a mistake of a run command gives one clear error: ${name}`, async () => {
      const { code, stdout, stderr } = await user.cli(words, {
        env: { ANTHROPIC_API_KEY: '', HOME: user.project.home },
      })
      assert.ok(![0, 20, 21, 22, 23, 24, 130].includes(code), `${code} ${stdout}`)
      assert.match(stderr, error)
      assert.doesNotMatch(stderr, /^\s+at /m)
    })
})

describe('/v1/runs', () => {
  let port: number
  const ask = async (
    key: string,
    line: string,
    body?: unknown,
    more: { headers?: Readonly<Record<string, string>>; until?: RegExp } = {},
  ): Promise<{ status: number; text: string }> => {
    const [method = '', path = ''] = line.split(' ')
    return tcpRequest({
      port,
      method,
      path,
      headers: { 'x-api-key': key, ...more.headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(more.until && { until: more.until }),
    })
  }
  let mine: string
  let theirs: string

  before(async () => {
    port = (await pod.listen()).port
    const key = async (): Promise<string> => (await world.ok(['key', 'create', '--quiet'])).trim()
    ;[mine, theirs] = [await key(), await key()]
  })

  test('/v1/runs refuses malformed requests, and says why', async () => {
    const good = bareRun('say x')
    const bad: readonly (readonly [unknown, RegExp])[] = [
      ['{', /JSON/i],
      [[], /object/i],
      [{}, /agent/],
      [{ ...good, agent: 'no-such' }, /no agent/],
      [{ ...good, agent: '../acp' }, /agent/],
      [{ ...good, prompt: 7 }, /prompt/],
      [{ ...good, prompt: '' }, /the prompt is empty/],
      [{ ...good, prompt: 'x'.repeat(300_000) }, /prompt|large/i],
      [{ ...good, promt: 'x' }, /prompt/],
      [{ ...good, limits: { timeMs: -1 } }, /timeMs/],
      [{ ...good, limits: { costUsd: 'much' } }, /costUsd/],
      [{ ...good, files: [{ path: '../x', content: '' }] }, /path/],
      [{ ...good, files: [{ path: '/etc/passwd', content: '' }] }, /path/],
      [{ ...good, project: { workspace: 'x', name: 'x', key: 'x', tree: 'x' } }, /workspace|key|tree/],
      [{ ...good, snapshot: 'nobody' }, /snapshot/],
      [{ ...good, secret: 'nobody' }, /secret/],
      [{ ...good, command: [] }, /command/],
      [{ ...good, permissions: { bash: [{ pattern: '*', decision: 'maybe' }] } }, /decision/],
    ]
    for (const [body, error] of bad) {
      const { status, text } = await ask(mine, 'POST /v1/runs', body)
      const told = `${status} ${text.slice(0, 300)} for ${JSON.stringify({ ...(body as object), files: 0 }).slice(0, 300)}`
      assert.ok(status >= 400 && status < 500, told)
      assert.match(text, error, told)
    }
    assert.equal((await ask(mine, 'GET /v1/runs')).text, '[]', 'none of them was begun')
  })

  test('RUN-20 another key sees nothing of a run and cannot touch it', async () => {
    const { status, text } = await ask(mine, 'POST /v1/runs', bareRun('forever'))
    assert.equal(status, 201, text)
    const { id } = JSON.parse(text) as RunInfo
    assert.equal((await ask(theirs, 'GET /v1/runs')).text, '[]')
    const lines = [
      [`GET /v1/runs/${id}`],
      [`GET /v1/runs/${id}/events`],
      [`GET /v1/runs/${id}/events?follow=true`],
      [`GET /v1/runs/${id}/result`],
      [`POST /v1/runs/${id}/cancel`, {}],
      [`POST /v1/runs/${id}/messages`, { text: 'x' }],
      [`POST /v1/runs/${id}/permissions/p1`, { answer: 'allow' }],
      [`POST /v1/runs/${id}/take-over`, {}],
      [`POST /v1/runs/${id}/hand-back`, {}],
      [`DELETE /v1/runs/${id}`],
    ] as const
    for (const [line, body] of lines) assert.equal((await ask(theirs, line, body)).status, 404, line)
    const seen = JSON.parse((await ask(mine, `GET /v1/runs/${id}`)).text) as RunInfo
    assert.notEqual(seen.state, 'ended', 'the control: it is still there, for its owner')
    assert.equal((await ask(mine, `DELETE /v1/runs/${id}`)).status, 200)
    assert.equal((await ask(mine, `GET /v1/runs/${id}`)).status, 404)
  })

  test('a run that is removed while it begins leaves no sandbox behind', async () => {
    const waits = [0, 5, 20, 50, 80, 120]
    for (const waitMs of waits) {
      const { id } = await pod.runs.start(bareRun('forever'))
      await new Promise((resolve) => setTimeout(resolve, waitMs))
      await (await pod.runs.get(id)).remove()
    }
    const left = async (): Promise<string[]> => {
      const living = await pod.list({ all: true })
      return living
        .filter(({ state, labels }) => state === 'running' && labels['agentpod/run'])
        .map(({ id }) => id)
    }
    // What was begun is there by then, and may take a moment to be undone.
    await new Promise((resolve) => setTimeout(resolve, 1000))
    await until('they are gone', async () => (await left()).length === 0, 5000)
  })

  test('the layers and snapshots of a run stay while it waits for room', async () => {
    const sandbox = await pod.create()
    const snapshot = await sandbox.snapshot()
    await sandbox.destroy()
    const before = await Promise.all(
      Array.from({ length: 4 * availableParallelism() }, () => pod.runs.start(bareRun('forever'))),
    )
    const run = await pod.runs.start(bareRun('say made', { snapshot: snapshot.id }))
    assert.equal(run.info.state, 'queued', 'the control: there is no room')
    await assert.rejects(pod.snapshots.remove(snapshot.id), { code: 'conflict', reason: 'snapshot.used' })
    await Promise.all(before.map((one) => one.remove()))
    const { info } = await run.ended()
    assert.equal(info.outcome, 'unchanged', info.reason ?? '')
    await pod.snapshots.remove(snapshot.id)
  })

  test('RUN-9 the last output of a run is not lost', async () => {
    const run = await pod.runs.start(bareRun('say first'))
    let isSent = false
    for await (const { body } of run.follow()) {
      if (isSent || body.type !== 'state' || body.state !== 'finishing') continue
      isSent = true
      await run.send('say second')
    }
    const { info } = await run.refresh()
    assert.deepEqual([info.state, info.turn], ['ended', 2])
    assert.match(saidIn(await run.events()), /first[\s\S]*second/)
  })

  test('RUN-9 an event stream continues after the last event that the client has', async () => {
    const { text } = await ask(mine, 'POST /v1/runs', bareRun('count 30 20\nsay the end'))
    const { id } = JSON.parse(text) as RunInfo
    const path = `GET /v1/runs/${id}/events?follow=true`
    const idsIn = (stream: string): number[] =>
      [...stream.matchAll(/^id: ?(\d+)$/gm)].map(([, seq]) => Number(seq))
    const first = idsIn((await ask(mine, path, undefined, { until: /<5>/ })).text)
    const last = first.at(-1) ?? 0
    const rest = await ask(mine, path, undefined, { headers: { 'last-event-id': String(last) } })
    const all = [...first, ...idsIn(rest.text)]
    const stored = JSON.parse((await ask(mine, `GET /v1/runs/${id}/events`)).text) as { seq: number }[]
    assert.deepEqual(
      all,
      stored.map(({ seq }) => seq),
    )
    assert.match(rest.text, /the end/)
  })
})

async function killServer(): Promise<void> {
  const pid = world.serverPid
  process.kill(pid, 'SIGKILL')
  await until('the server is gone', () => !isAlive(pid))
}

async function infoOf(id: string): Promise<RunInfo> {
  return (await pod.runs.get(id)).info
}

/** The id of the run that a call in the background has begun. */
async function newestAtWork(): Promise<string> {
  let found = ''
  await until('it is at work', async () => {
    const [newest] = await pod.runs.list()
    if (newest?.info.state === 'working' && newest.info.project !== null) found = newest.id
    return found !== ''
  })
  return found
}

async function textOf(
  child: ReturnType<User['start']>,
): Promise<{ code: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => (stdout += data))
  child.stderr.on('data', (data) => (stderr += data))
  child.stdin.end()
  const code = await new Promise<number>((resolve) => child.once('close', (exit) => resolve(exit ?? -1)))
  return { code, stdout, stderr }
}
