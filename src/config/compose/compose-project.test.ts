// biome-ignore-all lint/suspicious/noTemplateCurlyInString: compose files have variables of this form
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AgentPodError, isAgentPodError } from '../../core/error.ts'
import { composeFilesIn, readCompose } from './compose-project.ts'
import { interpolate } from './interpolate.ts'
import type { ComposeProject, ComposeService } from './model.ts'
import { splitWords } from './shell-split.ts'

type Files = Readonly<Record<string, string>>

function read(
  files: Files,
  o: { files?: readonly string[]; profiles?: readonly string[] } = {},
): ComposeProject {
  return readCompose({
    files: o.files ?? ['compose.yaml'],
    profiles: o.profiles,
    read: (file) => (Object.hasOwn(files, file) ? files[file] : undefined),
  })
}
const compose = (text: string, more: Files = {}): ComposeProject => read({ 'compose.yaml': text, ...more })
const service = (project: ComposeProject, name: string): ComposeService => {
  const found = project.services.find((one) => one.name === name)
  assert.ok(found, name)
  return found
}
function refused(text: string, more: Files = {}): AgentPodError {
  try {
    compose(text, more)
  } catch (error) {
    assert.ok(isAgentPodError(error), String(error))
    return error
  }
  throw new Error('it was accepted')
}

test('CMP-1 services, their parts and their order are read', () => {
  const project = compose(
    `
name: shop
x-common: &common
  environment: { LOG: debug }
services:
  web:
    <<: *common
    build: { context: ., dockerfile: Dockerfile.dev, target: dev, args: { VERSION: 3.10 } }
    command: sh -c "npm start && echo 'a b'"
    ports: ["8080:80", "127.0.0.1:9000-9001:9000-9001", 3000]
    volumes: [".:/app", "node_modules:/app/node_modules", /cache]
    depends_on:
      db: { condition: service_healthy }
      cache: { condition: service_started, required: false }
    env_file: .env.web
    networks: { default: { aliases: [frontend] } }
    deploy: { resources: { limits: { cpus: "0.5", memory: 256M } } }
    stop_grace_period: 1m30s
  db:
    image: postgres:16
    environment: [POSTGRES_PASSWORD=x=y, FROM_ENV]
    healthcheck: { test: [CMD-SHELL, pg_isready], interval: 2s, timeout: 3s, retries: 5, start_period: 10s }
    volumes: [{ type: volume, source: data, target: /var/lib/postgresql/data }]
    configs: [{ source: init, target: /init.sql }]
    restart: unless-stopped
  cache: { image: redis:7, profiles: [extra] }
volumes: { data: , node_modules: }
configs: { init: { content: "select 1" } }
`,
    { '.env': 'FROM_ENV=seen\n', '.env.web': 'A="quoted" # comment\nexport B=c # d\n' },
  )
  assert.deepEqual(
    project.services.map(({ name }) => name),
    ['db', 'web'],
  )
  assert.equal(project.name, 'shop')
  assert.deepEqual(project.inactive, [{ name: 'cache', file: 'compose.yaml', line: 26, profiles: ['extra'] }])
  const web = service(project, 'web')
  assert.deepEqual(web.build, {
    context: '',
    dockerfile: 'Dockerfile.dev',
    target: 'dev',
    args: { VERSION: '3.10' },
  })
  assert.deepEqual(web.command, ['sh', '-c', "npm start && echo 'a b'"])
  assert.deepEqual(
    web.ports.map(({ target, published }) => [published, target]),
    [
      [8080, 80],
      [9000, 9000],
      [9001, 9001],
      [undefined, 3000],
    ],
  )
  assert.deepEqual(web.mounts, [
    { kind: 'bind', source: '', target: '/app', isReadOnly: false },
    { kind: 'volume', name: 'node_modules', target: '/app/node_modules', isReadOnly: false },
    { kind: 'empty', target: '/cache' },
  ])
  assert.deepEqual(web.environment, { LOG: 'debug', A: 'quoted', B: 'c' })
  assert.deepEqual([web.aliases, web.cpus, web.memoryMib, web.stopMs], [['frontend'], 0.5, 256, 90_000])
  const db = service(project, 'db')
  assert.deepEqual(db.environment, { POSTGRES_PASSWORD: 'x=y', FROM_ENV: 'seen' })
  assert.deepEqual(db.healthcheck, { test: 'pg_isready', timeoutMs: 3000, readyMs: 35_000 })
  assert.deepEqual(db.files, [{ target: '/init.sql', file: undefined, content: 'select 1' }])
  assert.match(
    project.notes.map(({ said, line }) => `${line} ${said}`).join('\n'),
    /^25 restart is not used/m,
  )
})

test('CMP-2 later files override earlier ones, and profiles choose services', () => {
  const files = {
    'compose.yaml':
      'services:\n  web: { image: a, command: [one], environment: { A: 1, B: 2 }, ports: ["1:1"] }\n  tool: { image: t, profiles: [dev] }\n',
    'compose.override.yaml': 'services:\n  web: { command: [two], environment: { B: 3 }, ports: ["2:2"] }\n',
  }
  assert.deepEqual(
    composeFilesIn('', (file) => Object.hasOwn(files, file)),
    ['compose.yaml', 'compose.override.yaml'],
  )
  const project = read(files, { files: ['compose.yaml', 'compose.override.yaml'], profiles: ['dev'] })
  const web = service(project, 'web')
  assert.deepEqual([web.image, web.command, web.environment], ['a', ['two'], { A: '1', B: '3' }])
  assert.deepEqual(
    web.ports.map(({ published }) => published),
    [1, 2],
  )
  assert.equal(project.services.length, 2)
  assert.deepEqual(
    read(files).inactive.map(({ name }) => name),
    ['tool'],
  )
})

test('CMP-3 variables come from .env only, with defaults, requirements and escapes', () => {
  const lookup = (name: string): string | undefined => ({ A: 'x', EMPTY: '' })[name]
  const cases: readonly (readonly [string, string])[] = [
    ['$A ${A} $$A', 'x x $A'],
    ['${B:-d}${B-d}${EMPTY:-e}${EMPTY-e}', 'dde'],
    ['${A:+yes}${B:+no}${EMPTY+set}', 'yesset'],
    ['${B:-${A}-${C:-z}}', 'x-z'],
    ['${A?no}', 'x'],
  ]
  for (const [text, wanted] of cases) assert.equal(interpolate(text, lookup).text, wanted, text)
  assert.deepEqual(interpolate('$B', lookup), { text: '', unset: ['B'] })
  assert.throws(() => interpolate('${B:?set it}', lookup), /B is required: set it/)
  for (const bad of ['${A', '$ ', '${-}', '${A!}']) assert.throws(() => interpolate(bad, lookup), Error, bad)
  process.env['CMP_TEST_SECRET'] = 'secret'
  const project = compose(
    'services: { a: { image: "i:${CMP_TEST_SECRET:-none}", environment: [CMP_TEST_SECRET] } }',
  )
  assert.deepEqual([service(project, 'a').image, service(project, 'a').environment], ['i:none', {}])
  const error = refused('services:\n  a:\n    image: "${TAG?the tag}"\n')
  assert.match(
    error.message,
    /^compose\.yaml:3:12: services\.a\.image: the variable TAG is required: the tag/,
  )
})

test('LIFE-6 a tmpfs is never kept, and its other options are named', () => {
  const text = `services:
  a:
    image: x
    tmpfs: ["/cache:size=64m,mode=700", /run/x]
    volumes:
      - { type: tmpfs, target: /t, tmpfs: { size: 1048576 } }
      - /anonymous
`
  const project = readCompose({ files: ['compose.yaml'], read: () => text })
  assert.deepEqual(service(project, 'a').mounts, [
    { kind: 'tmpfs', target: '/t', sizeMib: 1 },
    { kind: 'empty', target: '/anonymous' },
    { kind: 'tmpfs', target: '/cache', sizeMib: 64 },
    { kind: 'empty', target: '/run/x' },
  ])
  assert.match(project.notes.map(({ said }) => said).join('\n'), /mode=700 of tmpfs \/cache is not used/)
})

test('CMP-4 what a sandbox cannot honour is refused with its place and a hint', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['privileged: true', /:4:5: services\.a\.privileged/],
    ['network_mode: host', /network_mode/],
    ['pid: host', /pid/],
    ['ipc: host', /ipc/],
    ['cap_add: [SYS_ADMIN]', /cap_add/],
    ['devices: ["/dev/kvm"]', /devices/],
    ['security_opt: ["seccomp:unconfined"]', /security_opt/],
    ['volumes: ["/:/host"]', /:4:15: services\.a\.volumes\.0: "\/" is not in the project/],
    ['volumes: ["/var/run/docker.sock:/var/run/docker.sock"]', /not in the project/],
    ['volumes: ["../other:/x"]', /not in the project/],
    ['volumes: ["./a/../../x:/x"]', /not in the project/],
    ['volumes: ["~/.ssh:/x"]', /not in the project/],
    ['volumes: ["data:/"]', /not a path below/],
    ['tmpfs: ["/etc/x"]', /:4:13: .*its own \/etc/],
    ['tmpfs: /', /:4:\d+: .*not a path for an ephemeral directory/],
    ['tmpfs: ["/x:size=much"]', /:4:13: .*not a size/],
    ['build: ../elsewhere', /not in the project/],
    ['build: https://example.com/x.git', /not in the project/],
    ['env_file: ../../etc/passwd', /not in the project/],
    ['scale: 3', /scale/],
    ['ports: ["53:53/udp"]', /UDP/],
    ['ports: ["x:80"]', /is not a port/],
    ['volums: []', /volums/],
    ['depends_on: [bd]', /depends on "bd"/],
    ['healthcheck: { test: [pg_isready] }', /CMD-SHELL/],
  ]
  for (const [line, wanted] of cases) {
    const error = refused(`services:\n  a:\n    image: x\n    ${line}\n  db: { image: y }\n`)
    assert.match(error.message, wanted, line)
    assert.match(error.message, /^compose\.yaml:\d+:\d+: /, line)
  }
  assert.match(refused('services: { a: { image: x, volums: [] } }').hint ?? '', /volumes/)
  assert.match(
    refused('services: { a: { image: x, depends_on: [bd] }, db: { image: y } }').hint ?? '',
    /did you mean db/,
  )
})

test('CMP-5 cycles, ports that are taken twice and empty files are one clear error', () => {
  const cycle =
    'services:\n  a: { image: x, depends_on: [b] }\n  b: { image: x, depends_on: [c] }\n  c: { image: x, depends_on: [a] }\n'
  assert.match(refused(cycle).message, /compose\.yaml:4:\d+: services wait for each other: a → b → c → a/)
  const taken = 'services:\n  a: { image: x, ports: ["80:1"] }\n  b: { image: x, ports: ["80:2"] }\n'
  assert.match(refused(taken).message, /compose\.yaml:3:\d+: .*the port 80 is taken by a already/)
  assert.match(refused('services: {}').message, /has no services/)
  assert.match(refused('services: { a: {} }').message, /neither image nor build/)
  assert.match(refused('services: { "../x": { image: a } }').message, /not the name of a service/)
  assert.match(refused('services: { a: { image: x }, a: { image: y } }').message, /twice/)
})

test('CMP-6 YAML bombs, deep files, huge files and hostile tags and keys are refused quickly', () => {
  const levels = Array.from(
    { length: 9 },
    (_, n) => `a${n + 1}: &a${n + 1} [${Array(9).fill(`*a${n}`).join(',')}]`,
  )
  const bomb = ['a0: &a0 [x,x,x,x,x,x,x,x,x]', ...levels, 'services: { a: { image: x, command: *a9 } }'].join(
    '\n',
  )
  const began = performance.now()
  assert.match(refused(bomb).message, /more than 20000 values/)
  assert.match(refused(`services: ${'['.repeat(5000)}`).message, /nested deeper/)
  const deep = Array.from({ length: 500 }, (_, n) => `${' '.repeat(n)}a:`).join('\n')
  assert.match(refused(deep).message, /nested deeper/)
  assert.match(refused(`# ${'x'.repeat(300_000)}`).message, /longer than/)
  assert.match(refused('services: &s { a: { image: x, deploy: *s } }').message, /contains itself|no anchor/)
  assert.match(refused('services: { a: { image: !!js/function x } }').message, /tag|services/)
  assert.match(refused('services: { a: { image: !reset x } }').message, /tag !reset is not supported/)
  assert.match(refused('__proto__: { x: 1 }\nservices: { a: { image: x } }').message, /not allowed/)
  assert.match(refused('services:\n  a:\n   image: "x\n').message, /^compose\.yaml:\d+:\d+: /)
  assert.ok(performance.now() - began < 5000)
})

test('commands are split into words as compose does', () => {
  assert.deepEqual(splitWords(`a "b c" 'd "e' f\\ g ""`), ['a', 'b c', 'd "e', 'f g', ''])
  assert.equal(splitWords('a "b'), undefined)
})

/** Fails if the work takes more than two seconds of a processor. */
function quickly(work: () => void): void {
  const began = process.cpuUsage()
  work()
  const took = process.cpuUsage(began).user / 1000
  assert.ok(took < 2000, `took ${Math.round(took)} ms`)
}

test('CMP-6 long runs of spaces in .env, many aliases and long variables take bounded time', () => {
  const spaces = ' '.repeat(200_000)
  quickly(() => {
    const env = `A=x${spaces}y\nB${spaces}=1\n${spaces}export${spaces}C="z"${spaces}# c\nD='q'${spaces}w\n`
    const project = compose('services: { a: { image: "i:$C", env_file: e.env } }', {
      '.env': env,
      'e.env': env,
    })
    const { image, environment } = service(project, 'a')
    assert.equal(image, 'i:z')
    assert.deepEqual([environment['A'], environment['B']], [`x${spaces}y`, '1'])
  })
  quickly(() => {
    const aliases = `[${Array(15_000).fill('*b').join(',')}]`
    const text = `x-a: [${Array(4000).fill('a').join(',')}]\nx-b: &b c\nx-c: ${aliases}\nservices: { a: { image: *b } }`
    assert.equal(service(compose(text), 'a').image, 'c')
  })
  quickly(() => {
    const many = `x-a: [${Array(40_000).fill('a').join(',')}]\nservices: { a: { image: x } }`
    assert.match(refused(many).message, /more than 20000 values/)
  })
  quickly(() => {
    const values = Array.from({ length: 3000 }, (_, n) => `V${n}=$A`)
    const text = `services: { a: { image: x, environment: ${JSON.stringify(values)} } }`
    assert.match(
      refused(text, { '.env': `A=${'x'.repeat(60_000)}` }).message,
      /too long after their variables/,
    )
  })
})

test('CMP-1 an alias stands for the last anchor of its name before it', () => {
  const project = compose(
    'x-a: &i one\nservices: { a: { image: *i }, b: { image: &i two }, c: { image: *i } }',
  )
  assert.deepEqual(
    project.services.map(({ image }) => image),
    ['one', 'two', 'two'],
  )
})

test('CMP-3 quotes, comments and exports of .env are read as Docker reads them', () => {
  const env = [
    'A=plain # comment',
    'B="double # not" # comment',
    "C='single $x'",
    'export D=a#b',
    'E="a\\"b\\nc"',
    'F=#none',
    ' G = spaced \r',
  ].join('\n')
  const { environment } = service(compose('services: { a: { image: x, env_file: [e] } }', { e: env }), 'a')
  assert.deepEqual(environment, {
    A: 'plain',
    B: 'double # not',
    C: 'single $x',
    D: 'a#b',
    E: 'a"b\nc',
    F: '',
    G: 'spaced',
  })
})

test('CMP-5 names that are the same host, and too many aliases, are errors with their line', () => {
  const same = refused('services:\n  a_b: { image: x }\n  a-b: { image: x }\n')
  assert.match(same.message, /^compose\.yaml:3:1: services\.a-b: has the host name a-b, as a_b has/)
  const aliases = Array.from({ length: 17 }, (_, n) => `h${n}`).join(',')
  const many = refused(`services:\n  a: { image: x, networks: { n: { aliases: [${aliases}] } } }\n`)
  assert.match(many.message, /^compose\.yaml:2:1: services\.a: has more than 16 aliases/)
})
