/**
 * The effect of every option of the commands that create sandboxes, in a repository and outside, with an
 * environment and without; and of every option of `send` and `merge`.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { command as mergeCommand } from '../../src/cli/commands/merge.ts'
import { command as sendCommand } from '../../src/cli/commands/send.ts'
import type { RunInfo } from '../../src/client/runs.ts'
import { AcpUser, worked } from '../support/acp-user.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import type { CliResult, World } from '../support/world.ts'

const skip = noInternet()
let internet: Internet
let world: World

before(async () => {
  if (skip) return
  internet = await Internet.open(['site.example', 'other.example', 'third.example'])
  internet.name('site.example', [SITE])
  internet.name('other.example', [OTHER_SITE])
  internet.name('third.example', [SITE])
  world = internet.world()
  await world.ok(['preset', 'set', 'maven', 'third.example'])
  await world.ok(['secret', 'set', 'TOKEN', '--host', 'site.example'], { input: 'value-of-the-token\n' })
})
after(async () => {
  if (skip) return
  await world[Symbol.asyncDispose]()
  await internet[Symbol.asyncDispose]()
})

/** Says what it finds, a line each. Where a bound is looked for, it tries to go beyond it. */
const PROBE = `curl() { command curl -sS -m 20 "$1" 2>&1 | head -c 400 | tr '\\n' ' '; }
echo "user=$(id -un)"
echo "cwd=$(pwd)"
echo "A=\${A-}"
echo "FROM_FILE=\${FROM_FILE-}"
echo "secret=\${TOKEN:+set}"
echo "privileges=$(sed -n 's/^NoNewPrivs:[^0-9]*//p' /proc/self/status)"
echo "allow=$(curl http://site.example/)"
echo "preset=$(curl http://third.example/)"
echo "deny=$(curl http://other.example/)"
echo "disk=$(head -c 80M /dev/zero 2>/dev/null > "$HOME/big" && echo free || echo bound)"
rm -f "$HOME/big"
echo "memory=$(/usr/bin/python3 -c 'x = b"x" * (300 << 20); print("free")' 2>/dev/null || echo bound)"
echo "pids=$(/usr/bin/python3 -c 'import threading, time
try:
  for i in range(90): threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
  print("free")
except RuntimeError: print("bound")' 2>/dev/null)"
`

type Seen = Readonly<Record<string, unknown>>

/** What is seen inside, and what the server says of the sandbox. */
interface Row {
  readonly words: readonly string[]
  readonly key: string
  readonly with: string | RegExp | number
  readonly without: string | RegExp | number
}

const ROWS = (file: string): readonly Row[] => [
  { words: ['-e', 'A=1'], key: 'A', with: '1', without: '' },
  { words: ['--env-file', file], key: 'FROM_FILE', with: 'yes', without: '' },
  { words: ['--workdir', '/tmp'], key: 'cwd', with: '/tmp', without: /^\/home\/user/ },
  { words: ['--sudo'], key: 'privileges', with: '0', without: '1' },
  {
    words: ['--allow', 'site.example', '--secret', 'TOKEN'],
    key: 'allow',
    with: /^hello/,
    without: /rule\.none/,
  },
  { words: [], key: 'secret', with: 'set', without: '' },
  { words: ['--preset', 'maven'], key: 'preset', with: /^hello/, without: /rule\.none/ },
  { words: ['--deny', 'other.example'], key: 'deny', with: /rule\.deny/, without: /rule\.none/ },
  { words: ['--disk', '64m'], key: 'disk', with: 'bound', without: 'free' },
  { words: ['--memory', '200m'], key: 'memory', with: 'bound', without: 'free' },
  { words: ['--pids', '64'], key: 'pids', with: 'bound', without: 'free' },
  { words: ['--cpus', '0.5'], key: 'cpus', with: 0.5, without: 2 },
  { words: ['--timeout', '9m'], key: 'ttlMs', with: 540_000, without: 86_400_000 },
  { words: ['--idle', '8m'], key: 'idleMs', with: 480_000, without: 1_800_000 },
  { words: ['--when-over', 'destroy'], key: 'whenOver', with: 'destroy', without: 'stop' },
  { words: ['--no-auto-resume'], key: 'autoResume', with: 'false', without: 'true' },
  { words: ['--label', 'team=web'], key: 'team', with: 'web', without: '' },
]

interface Place {
  readonly name: string
  readonly isRepository: boolean
  readonly hasEnvironment: boolean
}

const PLACES: readonly Place[] = [
  { name: 'a directory', isRepository: false, hasEnvironment: false },
  { name: 'a directory with an environment', isRepository: false, hasEnvironment: true },
  { name: 'a repository', isRepository: true, hasEnvironment: false },
  { name: 'a repository with an environment', isRepository: true, hasEnvironment: true },
]

function make({ isRepository, hasEnvironment }: Place): string {
  const directory = world.directory()
  writeFileSync(join(directory, 'notes.txt'), 'nothing that an environment is found by\n')
  if (hasEnvironment) {
    writeFileSync(join(directory, 'probe.sh'), PROBE)
    writeFileSync(
      join(directory, 'agentpod.toml'),
      '[environment]\nbase = "host"\n[lifecycle]\ntest = "sh ~/*/probe.sh"\ndev = "sh ~/*/probe.sh"\n',
    )
  }
  const git = (...args: string[]): Buffer => execFileSync('git', args, { cwd: directory })
  if (isRepository) {
    git('init', '-q', '-b', 'main')
    git('add', '.')
    git('-c', 'user.name=u', '-c', 'user.email=u@localhost', 'commit', '-qm', 'begin')
  }
  return directory
}

interface Way {
  readonly command: string
  /** What is called, in a place, with options. */
  call(directory: string, options: readonly string[]): Promise<CliResult>
  readonly isFor: (place: Place) => boolean
}

const cli = (cwd: string, args: readonly string[], input = ''): Promise<CliResult> =>
  world.cli(args, { cwd, input, timeoutMs: 180_000 })

const WAYS: readonly Way[] = [
  {
    command: 'run',
    call: (directory, options) => cli(directory, ['run', ...options, '--', 'sh', '-c', PROBE]),
    isFor: () => true,
  },
  {
    command: 'run --no-project',
    call: (directory, options) =>
      cli(directory, ['run', '--no-project', ...options, '--', 'sh', '-c', PROBE]),
    isFor: ({ isRepository, hasEnvironment }) => isRepository && hasEnvironment,
  },
  {
    command: 'run --bare',
    call: (directory, options) => cli(directory, ['run', '--bare', ...options, '--', 'sh', '-c', PROBE]),
    isFor: ({ isRepository, hasEnvironment }) => isRepository && hasEnvironment,
  },
  {
    command: 'shell',
    call: (directory, options) => cli(directory, ['shell', ...options], PROBE),
    isFor: ({ isRepository, hasEnvironment }) => isRepository === hasEnvironment,
  },
  {
    command: 'test',
    call: (directory, options) => cli(directory, ['test', ...options]),
    isFor: ({ hasEnvironment }) => hasEnvironment,
  },
  {
    command: 'dev',
    call: (directory, options) => cli(directory, ['dev', ...options]),
    isFor: ({ isRepository, hasEnvironment }) => isRepository && hasEnvironment,
  },
  {
    command: 'create',
    async call(directory, options) {
      const made = await cli(directory, ['create', ...options.filter((word) => word !== '--keep')])
      return made.code === 0 ? cli(directory, ['exec', 'probed', '--', 'sh', '-c', PROBE]) : made
    },
    isFor: ({ isRepository, hasEnvironment }) => !isRepository && !hasEnvironment,
  },
]

/** The call, and what the server says of the sandbox that it leaves. */
async function observe(way: Way, directory: string, options: readonly string[]): Promise<Seen> {
  const result = await way.call(directory, ['--name', 'probed', '--keep', ...options])
  const said = `${result.stdout}\n${result.stderr}`
  const inside = [...result.stdout.matchAll(/^(\w+)=(.*)$/gm)].map(([, key = '', value = '']) => [key, value])
  assert.ok(inside.length > 5, said)
  const all = JSON.parse(await world.ok(['ls', '--json'])) as Record<string, Record<string, unknown>>[]
  const info = all.find(({ name }) => String(name) === 'probed')
  assert.ok(info, `it was kept under its name: ${said}`)
  await world.ok(['destroy', 'probed'])
  const { resources, lifetime, labels } = info
  return {
    ...Object.fromEntries(inside),
    cpus: resources?.['cpus'],
    ttlMs: lifetime?.['ttlMs'],
    idleMs: lifetime?.['idleMs'],
    whenOver: lifetime?.['whenOver'],
    autoResume: String(lifetime?.['autoResume']),
    team: labels?.['team'] ?? '',
  }
}

function compare(rows: readonly Row[], seen: Seen, which: 'with' | 'without'): void {
  const wrong = rows.filter(({ key, [which]: expected }) =>
    expected instanceof RegExp ? !expected.test(String(seen[key])) : seen[key] !== expected,
  )
  const lines = wrong.map(
    ({ words, key, [which]: expected }) =>
      `${words.join(' ')}: ${key} is ${JSON.stringify(seen[key])}, not ${expected}`,
  )
  assert.equal(lines.length, 0, `${which} them:\n${lines.join('\n')}`)
}

for (const place of PLACES)
  describe(`in ${place.name}`, { skip }, () => {
    let directory = ''
    let rows: readonly Row[] = []
    before(() => {
      directory = make(place)
      const file = join(world.directory(), 'variables')
      writeFileSync(file, 'FROM_FILE=yes\n')
      rows = ROWS(file)
    })
    for (const way of WAYS.filter(({ isFor }) => isFor(place)))
      test(`\`agentpod ${way.command}\` does what its options say, and the next one without them does not`, async () => {
        compare(
          rows,
          await observe(
            way,
            directory,
            rows.flatMap(({ words }) => words),
          ),
          'with',
        )
        compare(rows, await observe(way, directory, []), 'without')
      })
  })

describe('in a repository with an environment', { skip }, () => {
  let directory = ''
  before(() => {
    directory = make({ name: '', isRepository: true, hasEnvironment: true })
  })

  const fetch = ['--', 'curl', '-sS', '-m', '20', 'http://site.example/']
  for (const [options, says] of [
    [['--net', 'off'], /mode\.off/],
    [['--net', 'open'], /^hello/],
    [['--net', 'allowlist'], /rule\.none/],
    [['--net', 'allowlist', '--allow', 'site.example'], /^hello/],
    [['--learn', '--allow', 'other.example'], /rule\.none/],
  ] as const)
    test(`run ${options.join(' ')} has its effect in a repository with an environment`, async () => {
      const { stdout, stderr } = await cli(directory, ['run', ...options, ...fetch])
      assert.match(stdout, says)
      if (options[0] === '--learn') assert.match(stderr, /"site\.example", {2}# asked for 1 time/)
    })

  test('run takes --user root, --base, --clean, --no-terminal, --json, and no --keep', async () => {
    const words = ['run', '--user', 'root', '--base', 'host', '--name', 'gone', '--json', '--no-terminal']
    writeFileSync(join(directory, 'uncommitted.txt'), 'u\n')
    const whole = await cli(directory, [...words, '--', 'sh', '-c', 'id -un; pwd; ls'])
    assert.match(String(JSON.parse(whole.stdout).stdout), /^root\n\/root\/\S+\n[\s\S]*uncommitted\.txt/)
    const clean = await cli(directory, [...words, '--clean', '--', 'ls'])
    assert.doesNotMatch(clean.stdout, /uncommitted/)
    rmSync(join(directory, 'uncommitted.txt'))
    assert.doesNotMatch(await world.ok(['ls', '--all', '--json']), /"state":"running","name":"gone"/)
    assert.doesNotMatch(await world.ok(['ls']), /gone/)
  })
})

describe('options without effect', { skip }, () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['run --net off --allow site.example -- true', /--allow has no effect with --net off/],
    ['create --net off --preset maven', /--preset has no effect with --net off/],
    ['run --max-cost 5 -- true', /--max-cost is an option for agents/],
    ['run --detach -- true', /--detach is an option for agents/],
    ['run claude --keep fix', /--keep does not apply to an agent’s run/],
    ['run claude --label a=b fix', /--label does not apply to an agent’s run/],
    ['run --clean -- true', /--clean needs a git repository/],
    ['run --no-project --with-executables -- true', /--with-executables has no effect with --no-project/],
    ['run --bare --profile ci -- true', /--profile has no effect with --bare/],
    ['run --profile ci -- true', /there is no profile "ci"/],
    ['test --bare', /unknown option --bare/],
    ['test --from golden', /unknown option --from/],
    ['shell --memory 1g box', /--memory is for a new sandbox/],
  ]
  for (const [call, says] of cases)
    test(`an option without effect is refused: ${call}`, async () => {
      const { code, stderr } = await cli(world.directory(), call.split(' '))
      assert.match(stderr, says)
      assert.equal(code, 2)
    })

  test('create --allow from a snapshot without a network is refused', async () => {
    await world.ok(['create', '--name', 'closed', '--net', 'off'])
    await world.ok(['snapshot', 'create', 'closed', '--name', 'closed-snapshot'])
    const { code, stderr } = await world.cli([
      'create',
      '--from',
      'closed-snapshot',
      '--allow',
      'site.example',
    ])
    assert.match(stderr, /made without a network, so allowing hosts has no effect\n.*--net allowlist/)
    assert.equal(code, 2)
    await world.ok(['destroy', 'closed'])
  })
})

/** What a call left behind, as a person or a program sees it. */
type Effects = Readonly<Record<string, unknown>>

/** By option: which effect shows it, with the option and without. */
type Shown = Readonly<Record<string, readonly [key: string, with_: unknown, without: unknown]>>

function assertEffects(
  shown: Shown,
  which: 'with' | 'without',
  options: readonly string[],
  seen: Effects,
): void {
  for (const option of options) {
    const [key, with_, without] = shown[option] ?? assert.fail(option)
    assert.deepEqual(seen[key], which === 'with' ? with_ : without, `--${option}, ${which} it`)
  }
}

describe('follow-ups and merges', { skip }, () => {
  let user: AcpUser
  before(() => {
    user = AcpUser.with(world)
  })

  const isJson = ({ stdout }: CliResult): boolean =>
    stdout !== '' &&
    stdout
      .trim()
      .split('\n')
      .every((line) => line.startsWith('{'))
  const files = (...refs: string[]): string[] =>
    user.project.git('ls-tree', '-r', '--name-only', ...refs).split('\n')
  const infoOf = async (id: string): Promise<RunInfo> =>
    (await user.runs()).find((one) => one.id === id) ?? assert.fail(`there is no run ${id}`)

  const SEND: Shown = {
    time: ['timeMs', 30_000, 3_600_000],
    'max-cost': ['costUsd', 3, null],
    'prompt-file': ['prompt', 'from the file', 'from the words'],
    update: ['later', 'with my commit', 'without it'],
    branch: ['branch', 'mine', 'agentpod'],
    'with-executables': ['executables', ['.husky/hook', 'Makefile'], []],
    take: ['executables', ['Makefile'], []],
    json: ['isJson', true, false],
    detach: ['state', 'working', 'ended'],
  }
  let run = ''

  /** A follow-up, before which the user committed something. */
  async function sent(turn: string, options: readonly string[]): Promise<Effects> {
    writeFileSync(join(user.project.root, `later-${turn}.txt`), 'x\n')
    user.project.commitAll(`before ${turn}`)
    const text = (by: string): string =>
      [
        `sh mkdir -p ${turn}/.husky; cd ${turn}; echo x > .husky/hook; echo all: > Makefile; echo "${by}" > by.txt`,
        `if [ -e ../later-${turn}.txt ]; then echo 'with my commit'; else echo 'without it'; fi > later.txt`,
      ].join('; ')
    const file = join(world.directory(), 'prompt.md')
    writeFileSync(file, text('from the file'))
    const isFile = options.includes('--prompt-file')
    const words = options.map((word) => (word === 'FILE' ? file : word))
    const answer = await user.cli(['send', ...words, run, ...(isFile ? [] : [text('from the words')])])
    assert.equal(answer.code, 0, answer.stderr)
    const branches = user.project.git('for-each-ref', '--format=%(refname:short)', 'refs/heads/').split('\n')
    const branch = branches.find((one) => files(one).includes(`${turn}/by.txt`))
    assert.ok(branch, answer.stderr)
    const show = (path: string): string => user.project.git('show', `${branch}:${turn}/${path}`)
    const { limits, state } = await infoOf(run)
    return {
      timeMs: limits.timeMs,
      costUsd: limits.costUsd,
      prompt: show('by.txt'),
      later: show('later.txt'),
      branch: branch.split('/')[0],
      executables: files(branch, `${turn}/`)
        .map((path) => path.slice(turn.length + 1))
        .filter((path) => path.endsWith('hook') || path === 'Makefile'),
      isJson: isJson(answer),
      state,
    }
  }

  test('`agentpod send` does what its options say, and not without them', async () => {
    run = (await user.work('sh echo first > first.txt')).id
    const all = Object.keys(SEND)
    assertEffects(SEND, 'without', all, await sent('plain', []))
    assertEffects(SEND, 'with', ['take'], await sent('taking', ['--take', 'taking/Makefile']))
    const options = ['--time', '30s', '--max-cost', '3', '--prompt-file', 'FILE', '--update', '--json']
    const branch = ['--branch', 'mine/{slug}-{agent}-{n}', '--with-executables']
    const together = all.filter((option) => option !== 'take' && option !== 'detach')
    assertEffects(SEND, 'with', together, await sent('optioned', [...options, ...branch]))
  })

  test('`agentpod send --time` ends the follow-up in time, and `--detach` does not wait for it', async () => {
    const late = worked(await user.cli(['send', '--json', '--time', '1s', run, 'forever']))
    assert.equal(late.result.outcome, 'timed_out')
    const left = await user.cli(['send', '--detach', '--time', '1h', run, 'sleep 1500'])
    assert.equal(left.stdout, `${run}\n`)
    assert.notEqual((await infoOf(run)).state, 'ended')
    await user.cli(['follow', run])
  })

  const MERGE: Shown = {
    squash: ['parents', 1, 2],
    'with-executables': ['executables', ['.husky/pre-commit', 'Makefile'], []],
    take: ['executables', ['Makefile'], []],
    'with-uncommitted': ['code', 0, 6],
    json: ['isJson', true, false],
  }

  test('`agentpod merge` does what its options say, and not without them', async () => {
    const draft = (): void => writeFileSync(join(user.project.root, 'draft.txt'), 'not committed\n')
    draft()
    const { id } = await user.work(
      'sh mkdir .husky; echo x > .husky/pre-commit; echo all: > Makefile; echo x > plain.txt',
    )
    const from = user.project.git('rev-parse', 'HEAD')
    const merged = async (...options: string[]): Promise<Effects> => {
      const answer = await user.cli(['merge', ...options, id])
      const seen = {
        code: answer.code,
        parents: user.project.git('log', '-1', '--format=%P').split(' ').length,
        executables: files('HEAD').filter((path) => path === 'Makefile' || path.startsWith('.husky')),
        isJson: isJson(answer),
      }
      user.project.git('reset', '-q', '--hard', from)
      user.project.git('clean', '-qfd')
      draft()
      return seen
    }
    const committing = '--with-uncommitted'
    assertEffects(MERGE, 'without', ['with-uncommitted'], await merged())
    const plain = ['squash', 'with-executables', 'take', 'json']
    assertEffects(MERGE, 'without', plain, await merged(committing))
    assertEffects(MERGE, 'with', ['take'], await merged(committing, '--take', 'Makefile'))
    const together = ['with-uncommitted', 'squash', 'with-executables', 'json']
    assertEffects(MERGE, 'with', together, await merged(...together.map((option) => `--${option}`)))
  })

  test('these tests leave out no option of the follow-up commands', () => {
    assert.deepEqual(Object.keys(SEND).sort(), Object.keys(sendCommand.options).sort())
    assert.deepEqual(Object.keys(MERGE).sort(), Object.keys(mergeCommand.options).sort())
  })
})
