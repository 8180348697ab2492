/** What a sandbox may reach, as a person says it on the command line and in files. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { isAlive, ROOT, until, type World } from '../support/world.ts'

const skip = noInternet()
let internet: Internet
let world: World

before(async () => {
  if (skip) return
  internet = await Internet.open(['site.example', 'other.example'])
  internet.name('site.example', [SITE])
  internet.name('other.example', [OTHER_SITE])
  internet.name('third.example', [SITE])
  world = internet.world()
})
after(async () => {
  if (skip) return
  try {
    await world[Symbol.asyncDispose]()
  } finally {
    await internet[Symbol.asyncDispose]()
  }
})

const HELLO = /^hello from /
const curl = (...words: string[]): string[] => ['curl', '-sS', '-m', '20', ...words]

/** A command in a sandbox that exists. */
async function exec(name: string, ...command: string[]): Promise<string> {
  const { stdout, stderr } = await world.cli(['exec', name, '--', ...command])
  return stdout + stderr
}

const fetched = (name: string, url: string): Promise<string> => exec(name, ...curl(url))

function person(name: string, work: () => Promise<void>): void {
  test(name, { skip }, work)
}

describe('create and run', () => {
  person(
    'NET-2 sandboxes reach nothing unless it is allowed, and allowed hosts over HTTP and TLS',
    async () => {
      const nothing = await world.cli(['run', '--no-project', '--', ...curl('http://site.example/')])
      assert.match(nothing.stdout, /no rule allows site\.example \[rule\.none\]/)
      for (const scheme of ['http', 'https']) {
        const url = `${scheme}://site.example/`
        const out = await world.ok(['run', '--no-project', '--allow', 'site.example', '--', ...curl(url)])
        assert.match(out, HELLO)
      }
    },
  )

  person('create and run with --deny refuse what a wider rule allows', async () => {
    internet.name('a.tree.example', [SITE])
    internet.name('b.tree.example', [SITE])
    await world.ok(['create', '--name', 'tree', '--allow', '*.tree.example', '--deny', 'b.tree.example'])
    assert.match(await fetched('tree', 'http://a.tree.example/'), HELLO)
    assert.match(await fetched('tree', 'http://b.tree.example/'), /is denied by .*\[rule\.deny\]/)
    await world.ok(['destroy', 'tree'])
  })

  person('create and run with --preset reach the hosts that the user named for the preset', async () => {
    await world.ok(['preset', 'set', 'maven', 'site.example', 'other.example:8443'])
    const listed = await world.ok(['preset', 'ls', '--json', 'maven'])
    assert.deepEqual(JSON.parse(listed), [
      { name: 'maven', hosts: ['site.example', 'other.example:8443'], from: 'user' },
    ])
    await world.ok(['create', '--name', 'mvn', '--preset', 'maven'])
    assert.match(await fetched('mvn', 'http://site.example/'), HELLO)
    assert.match(await fetched('mvn', 'https://other.example:8443/'), HELLO)
    assert.match(await fetched('mvn', 'http://other.example/'), /rule\.none/)
    assert.match(
      await world.ok(['policy', 'show', 'mvn']),
      /allow {2}site\.example:80,443 +private +preset maven/,
    )
    await world.ok(['destroy', 'mvn'])
    await world.ok(['preset', 'unset', 'maven'])
    const { code, stderr } = await world.cli(['create', '--preset', 'mavn'])
    assert.notEqual(code, 0)
    assert.match(stderr, /did you mean maven\?/)
  })

  person('create and run refuse a rule that makes no sense, in words', async () => {
    for (const rule of ['*', '*.com', 'localhost', '127.0.0.1', 'https://site.example', 'site.example:0']) {
      const { code, stderr } = await world.cli(['create', '--allow', rule])
      assert.notEqual(code, 0, rule)
      assert.match(stderr, /^error: .+\n/, rule)
      assert.doesNotMatch(stderr, /^\s+at /m)
    }
    assert.equal(await world.ok(['ls', '--json']), '[]\n', 'nothing was made')
  })
})

describe('policy', () => {
  before(async () => {
    if (skip) return
    const rules = ['--allow', 'site.example', '--allow', 'other.example/api/**', '--deny', 'tracker.example']
    await world.ok(['create', '--name', 'box', ...rules])
  })

  person('policy show lists the mode, the level and every rule with its source', async () => {
    await world.ok(['allow', 'box', 'third.example:8080'])
    const [mode = '', ...rest] = (await world.ok(['policy', 'show', 'box'])).trimEnd().split('\n')
    assert.equal(mode, 'mode allowlist, transparent')
    assert.deepEqual(
      rest.slice(0, -1).map((line) => line.trim().split(/\s+/).join(' ')),
      [
        'deny tracker.example create',
        'allow site.example:80,443 create',
        'allow other.example:80,443 /api/** create',
        'allow third.example:8080 live',
      ],
    )
    assert.match(rest.at(-1) ?? '', /^\d+ allowed, \d+ denied, \d+ failed; .* in, .* out$/)
    const view = JSON.parse(await world.ok(['policy', 'show', '--json', 'box'])) as {
      rules: { host: string }[]
    }
    assert.deepEqual(
      view.rules.map(({ host }) => host),
      ['site.example', 'other.example', 'third.example'],
    )
  })

  const explained: Readonly<Record<string, readonly string[]>> = {
    'https://site.example/any': [
      'allowed: GET site.example:443',
      '  site.example is allowed by site.example on port 80, 443 (create) [rule.allow]',
      '  it must resolve to a public address',
    ],
    'https://evil.example/': [
      'refused: GET evil.example:443',
      '  no rule allows evil.example [rule.none]',
      '  ask the user to run `agentpod allow NAME evil.example`',
    ],
    'http://metadata.google.internal/': [
      'refused: GET metadata.google.internal:80',
      '  metadata.google.internal is the host machine or a cloud metadata service [host.never]',
      '  no rule can allow it',
    ],
    'https://other.example/else': [
      'refused: GET other.example:443',
      '  no rule allows other.example [rule.none]',
      '  ask the user to run `agentpod allow NAME other.example`; existing rule: other.example on port 80, 443; paths /api/**',
      'other rules for this host:',
      '  allows other.example on port 80, 443; paths /api/** (create)',
    ],
  }
  for (const [url, lines] of Object.entries(explained))
    person(`policy explain says why ${url} is allowed or denied`, async () => {
      assert.equal(await world.ok(['policy', 'explain', 'box', url]), `${lines.join('\n')}\n`)
    })

  person('NET-3 policy explain predicts what the egress proxy does', async () => {
    const urls = [
      'http://site.example/',
      'http://other.example/api/x',
      'http://other.example/else',
      'http://evil.example/',
    ]
    for (const url of urls) {
      const said = JSON.parse(await world.ok(['policy', 'explain', '--json', 'box', url])) as {
        allowed: boolean
      }
      assert.equal(HELLO.test(await fetched('box', url)), said.allowed, url)
    }
  })

  after(async () => {
    if (!skip) await world.ok(['destroy', 'box'])
  })
})

describe('net log', () => {
  before(async () => {
    if (skip) return
    await world.ok(['create', '--name', 'logged', '--allow', 'site.example'])
    await fetched('logged', 'http://site.example/')
    await fetched('logged', 'http://evil.example/path?token=hidden')
    await until('both are written down', async () =>
      (await world.ok(['net', 'log', 'logged'])).includes('evil'),
    )
  })

  person('net log has a line for each decision, with the reason and without the query', async () => {
    const log = await world.ok(['net', 'log', 'logged'])
    assert.match(
      log,
      /^\S+Z {2}allowed {2}GET site\.example:80\/? {2}\[rule\.allow\] {2}\d+ B in, \d+ B out$/m,
    )
    assert.match(
      log,
      /^\S+Z {2}denied {3}GET evil\.example:80\S* {2}\[rule\.none\] {2}no rule allows evil\.example$/m,
    )
    assert.ok(!log.includes('hidden'))
    const denied = await world.ok(['net', 'log', '--denied', 'logged'])
    assert.ok(denied.includes('evil.example') && !denied.includes('site.example'))
  })

  person('net log --json prints one JSON object per line', async () => {
    const lines = (await world.ok(['net', 'log', '--json', 'logged'])).trimEnd().split('\n')
    const events = lines.map((line) => JSON.parse(line) as { type: string; data: Record<string, unknown> })
    assert.ok(events.every(({ type }) => type === 'network.decision'))
    const verdicts = events.map(({ data }) => [data['host'], data['verdict'], data['via']])
    assert.deepEqual(verdicts, [
      ['site.example', 'allowed', 'http'],
      ['evil.example', 'denied', 'http'],
    ])
  })

  person('net log -f continues until the sandbox ends', async () => {
    const child = world.start(['net', 'log', '-f', 'logged'])
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    await until('what there was is shown', () => text.includes('evil.example'))
    await fetched('logged', 'http://later.example/')
    await until('what comes is shown', () => text.includes('later.example'), 3000)
    await world.ok(['destroy', 'logged'])
    assert.equal(await ended, 0)
  })
})

describe('learning', () => {
  person('run --learn suggests rules, and they are enough', async () => {
    const script =
      'curl -s http://site.example/; curl -s https://other.example:8443/; curl -s http://169.254.169.254/; true'
    const first = await world.cli(['run', '--no-project', '--learn', '--', 'sh', '-c', script])
    assert.equal(first.code, 0)
    assert.match(
      first.stderr,
      /^\[network\]\nallow = \[\n {2}"other\.example:8443", {2}# asked for 1 time\n {2}"site\.example", {2}# asked for 1 time\n\]\n# never allowed: 169\.254\.169\.254$/m,
    )
    const rules = [...first.stderr.matchAll(/^ {2}"(.*)",/gm)].flatMap(([, rule = '']) => ['--allow', rule])
    const second = await world.cli(['run', '--no-project', ...rules, '--', 'sh', '-c', script])
    assert.equal(second.stdout.match(/hello from/g)?.length, 2, second.stdout)
  })

  person('net suggest works on a running sandbox, and suggests no more than is needed', async () => {
    await world.ok(['create', '--name', 'learner', '--allow', 'site.example'])
    assert.equal(await world.ok(['net', 'suggest', 'learner']), '# no further rules are needed\n')
    for (const host of ['a.many.example', 'b.many.example']) await fetched('learner', `http://${host}/`)
    await until('it is written down', async () =>
      (await world.ok(['net', 'log', 'learner'])).includes('b.many'),
    )
    assert.equal(
      await world.ok(['net', 'suggest', 'learner']),
      '[network]\nallow = [\n  "a.many.example",  # asked for 1 time\n  "b.many.example",  # asked for 1 time\n]\n',
    )
    await world.ok(['destroy', 'learner'])
  })
})

describe('agentpod.toml', () => {
  let project = ''
  const write = (text: string): void => writeFileSync(join(project, 'agentpod.toml'), text)
  const run = (...options: string[]): ReturnType<World['cli']> =>
    world.cli(['run', ...options, '--', 'sh', '-c', `${curl('http://site.example/').join(' ')}`], {
      cwd: project,
    })
  const config = (): string => join(world.home, 'config.toml')
  before(() => {
    if (!skip) project = world.directory()
  })

  person(
    'agentpod.toml that asks for more than was granted gets it only after approval, for its present contents',
    async () => {
      write('[network]\nallow = ["site.example"]\n')
      const first = await run()
      assert.match(
        first.stderr,
        /asks for more than you have granted:\n {2}site\.example on port 80, 443\nit was left out/,
      )
      assert.match(first.stdout, /rule\.none/)
      const approved = await world.cli(['policy', 'approve'], { cwd: project })
      assert.equal(approved.stderr, 'granted: site.example on port 80, 443\n')
      const second = await run()
      assert.match(second.stdout, HELLO)
      assert.doesNotMatch(second.stderr, /asks for more/)
      assert.match((await world.cli(['policy', 'approve'], { cwd: project })).stderr, /nothing to approve/)

      write('[network]\nallow = ["site.example", "evil.example"]\n')
      const changed = await run()
      assert.match(changed.stderr, /evil\.example on port 80, 443\nit was left out/)
      assert.match(changed.stdout, /rule\.none/, 'what was approved was the file as it was')
      const elsewhere = world.directory()
      writeFileSync(join(elsewhere, 'agentpod.toml'), '[network]\nallow = ["site.example"]\n')
      const copied = await world.cli(['run', '--', ...curl('http://site.example/')], { cwd: elsewhere })
      assert.match(copied.stderr, /it was left out/, 'and it was approved for that project')
    },
  )

  person('NET-15 agentpod.toml narrows what the user grants, and cannot widen it', async () => {
    writeFileSync(config(), '[network]\nallow = ["site.example", "other.example"]\n')
    write('[network]\nallow = ["other.example"]\n')
    const narrowed = await run()
    assert.doesNotMatch(narrowed.stderr, /asks for more/)
    assert.match(narrowed.stdout, /rule\.none/, 'the project does without site.example')
    write('[network]\nmode = "off"\n')
    assert.match((await run()).stdout, /mode\.off|no network/)
    write('[network]\nmode = "open"\n')
    const wide = await run()
    assert.match(wide.stderr, /the network mode open\nit was left out/)
    assert.match(wide.stdout, HELLO, 'what the user grants holds')
    rmSync(join(project, 'agentpod.toml'))
    assert.match((await run()).stdout, HELLO, 'without a file, what the user grants')
    writeFileSync(config(), '[network]\nallow = ["site.example"]\ndeny = ["other.example"]\n')
    const out = await world.cli(['run', '--allow', 'other.example', '--', ...curl('http://other.example/')], {
      cwd: project,
    })
    assert.match(out.stdout, /rule\.deny/, 'a denial of the user holds')
    rmSync(config())
  })

  person('agentpod.toml with a mistake is refused with its line, before anything is created', async () => {
    write('[network]\nalow = ["site.example"]\n')
    const { code, stderr } = await run()
    assert.notEqual(code, 0)
    assert.match(stderr, /agentpod\.toml/)
    assert.match(stderr, /alow/)
    assert.equal(await world.ok(['ls', '--json']), '[]\n')
  })

  person(
    'agentpod.toml that asks for more is shown to a person at a terminal, and granted only by a yes',
    async () => {
      write('[network]\nallow = ["third.example"]\n')
      const drive = async (answer: string): Promise<string> => {
        const command = [
          ...internet.onMachine,
          join(ROOT, 'agentpod'),
          'run',
          '--',
          ...curl('http://third.example/'),
        ]
        const child = spawn('/usr/bin/python3', [join(ROOT, 'test/support/drive-terminal.py'), ...command], {
          cwd: project,
          env: { ...process.env, AGENTPOD_HOME: world.home, NO_COLOR: '1', TERM: 'xterm' },
          stdio: ['pipe', 'pipe', 'inherit'],
        })
        const steps = [
          { expect: 'grant it to this project, as it is now\\? \\[y/N\\] ' },
          { send: `${answer}\r` },
        ]
        child.stdin.end(JSON.stringify(steps))
        let text = ''
        for await (const chunk of child.stdout) text += chunk
        const { stuck, screen } = JSON.parse(text) as { stuck: string | null; screen: string }
        assert.equal(stuck, null, screen)
        return screen
      }
      assert.match(await drive(''), /rule\.none/)
      assert.match(await drive('n'), /rule\.none/)
      assert.match(await drive('y'), /hello from third\.example/)
      const { stdout } = await world.cli(['run', '--', ...curl('http://third.example/')], { cwd: project })
      assert.match(stdout, HELLO, 'from then on nobody is asked')
    },
  )
})

describe('a key', () => {
  person('an API key gives its sandboxes no more than it may have', async () => {
    const { port } = await world.client().listen()
    const env = async (...options: string[]): Promise<Record<string, string>> => ({
      AGENTPOD_URL: `http://127.0.0.1:${port}`,
      AGENTPOD_API_KEY: (await world.ok(['key', 'create', '--quiet', ...options])).trim(),
    })
    const narrow = await env('--net', 'allowlist', '--allow', 'site.example')
    const create = (given: Record<string, string>, ...options: string[]): ReturnType<World['cli']> =>
      world.cli(['create', ...options], { env: given })
    assert.equal((await create(narrow, '--name', 'capped', '--allow', 'site.example')).code, 0)
    const reached = await world.cli(['exec', 'capped', '--', ...curl('http://site.example/')], {
      env: narrow,
    })
    assert.match(reached.stdout, HELLO, 'the control')
    for (const options of [
      ['--allow', 'other.example'],
      ['--net', 'open'],
      ['--allow', '*.site.example'],
    ]) {
      const { code, stderr } = await create(narrow, ...options)
      assert.equal(code, 3, `${options.join(' ')}: ${stderr}`)
      assert.match(stderr, /this key/)
    }
    const widened = await world.cli(['allow', 'capped', 'other.example'], { env: narrow })
    assert.equal(widened.code, 3, widened.stderr)
    const off = await env('--net', 'off')
    assert.equal((await create(off, '--net', 'allowlist', '--allow', 'site.example')).code, 3)
    assert.equal((await create(off, '--name', 'dark', '--allow', 'site.example')).code, 0)
    const dark = await world.cli(['exec', 'dark', '--', ...curl('http://site.example/')], { env: off })
    assert.match(dark.stdout + dark.stderr, /no network/)
    await world.ok(['destroy', 'dark'], { env: off })
    await world.ok(['destroy', 'capped'], { env: narrow })
  })
})

describe('restarts of a server and a sandbox', () => {
  person('NET-6 a download continues while the server is down, and the rules hold', async () => {
    await world.ok(['create', '--name', 'steady', '--allow', 'site.example'])
    const url = 'http://site.example/drip?count=60&every=100'
    const script = `curl -sSN -m 60 '${url}' > ~/drops 2>&1; echo $? > ~/code`
    await world.ok([
      'exec',
      'steady',
      '--',
      'sh',
      '-c',
      `setsid sh -c '${script.replaceAll("'", `'"'"'`)}' > /dev/null 2>&1 &`,
    ])
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const pid = world.serverPid
    process.kill(pid, 'SIGKILL')
    await until('the server is gone', () => !isAlive(pid))
    await new Promise((resolve) => setTimeout(resolve, 3000))
    assert.match(await fetched('steady', 'http://site.example/'), HELLO, 'the next server')
    assert.notEqual(world.serverPid, pid)
    assert.match(await fetched('steady', 'http://evil.example/'), /rule\.none/)
    await until(
      'it has ended',
      async () => (await exec('steady', 'sh', '-c', 'cat ~/code 2>/dev/null')) === '0\n',
    )
    const drops = (await exec('steady', 'sh', '-c', 'cat ~/drops')).trimEnd().split('\n')
    assert.deepEqual(
      drops,
      Array.from({ length: 60 }, (_, at) => `drop ${at}`),
      'no byte is missing',
    )
  })

  person(
    'after a stop and a start, and a pause and a resume, the same hosts are reached and refused',
    async () => {
      await world.ok(['allow', 'steady', 'other.example'])
      for (const verbs of [
        ['stop', 'start'],
        ['pause', 'resume'],
      ]) {
        for (const verb of verbs) await world.ok([verb, 'steady'])
        assert.match(await fetched('steady', 'http://site.example/'), HELLO, verbs.join())
        assert.match(
          await fetched('steady', 'http://other.example/'),
          HELLO,
          `${verbs.join()}: what was allowed live`,
        )
        assert.match(await fetched('steady', 'http://evil.example/'), /rule\.none/)
      }
      await world.ok(['destroy', 'steady'])
    },
  )
})

const noUser = skip || noOrdinaryUser()
describe('an ordinary user', { skip: noUser }, () => {
  let user: OrdinaryUser
  let own: World
  before(() => {
    if (noUser) return
    user = makeOrdinaryUser()
    own = internet.worldOf(user, join(user.home, 'state'))
  })
  after(async () => {
    if (noUser) return
    try {
      await own[Symbol.asyncDispose]()
    } finally {
      user[Symbol.dispose]()
    }
  })

  test('sandboxes of an ordinary user say how their connections are routed, and reach only what is allowed', async () => {
    await own.ok(['create', '--name', 'mine', '--allow', 'site.example'])
    const { level, reason } = JSON.parse(await own.ok(['policy', 'show', '--json', 'mine'])) as {
      level: string
      reason: string | null
    }
    assert.match(level, /^(?:transparent|proxy)$/)
    if (level === 'proxy') assert.ok(reason, 'a lower level says why')
    const say = async (...words: string[]): Promise<string> => {
      const { stdout, stderr } = await own.cli(['exec', 'mine', '--', ...words])
      return stdout + stderr
    }
    for (const scheme of ['http', 'https'])
      assert.match(await say(...curl(`${scheme}://site.example/`)), HELLO, scheme)
    assert.match(await say(...curl('http://evil.example/')), /rule\.none/)
    const bare = await say('env', '-i', ...curl('http://site.example/'))
    if (level === 'transparent') assert.match(bare, HELLO)
    else assert.doesNotMatch(bare, HELLO)
    assert.doesNotMatch(await say('env', '-i', ...curl('http://192.0.2.66/')), HELLO)
  })
})
