// biome-ignore-all lint/suspicious/noTemplateCurlyInString: compose files have variables of this form
/** `extends` and `include`, as the Compose Specification says. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AgentPodError, isAgentPodError } from '../../core/error.ts'
import { readCompose } from './compose-project.ts'
import type { ComposeProject, ComposeService } from './model.ts'

type Files = Readonly<Record<string, string>>

function read(
  files: Files,
  o: { files?: readonly string[]; leftOut?: readonly string[] } = {},
): ComposeProject {
  return readCompose({
    files: o.files ?? ['compose.yaml'],
    read: (file) => (Object.hasOwn(files, file) ? files[file] : undefined),
    isLeftOut: (file) => o.leftOut?.includes(file) ?? false,
  })
}

function service(project: ComposeProject, name: string): ComposeService {
  const found = project.services.find((one) => one.name === name)
  assert.ok(found, name)
  return found
}

function refused(files: Files, o: Parameters<typeof read>[1] = {}): AgentPodError {
  try {
    read(files, o)
  } catch (error) {
    assert.ok(isAgentPodError(error), String(error))
    return error
  }
  throw new Error('it was accepted')
}

test('CMP-14 a service extends one of the same file and one of another file, merged by the specification', () => {
  const project = read({
    'compose.yaml': `services:
  base: { image: a, environment: { A: 1, B: 2 }, command: [one], ports: ["1"], labels: { x: y } }
  web: { extends: base, environment: { B: 3 }, command: [two], ports: ["2:2"], depends_on: [api] }
  api: { extends: { service: common, file: shared/common.yaml }, volumes: ["own:/data"], user: me }
volumes: { own: , shared: }
`,
    'shared/common.yaml': `services:
  common:
    extends: { service: root, file: ./deeper/root.yaml }
    build: ./api
    env_file: api.env
    volumes: ["shared:/data", "./conf:/conf", "shared:/more"]
    healthcheck: { test: ["CMD", "true"], retries: 2 }
  unused: { image: x, privileged: true }
`,
    'shared/deeper/root.yaml': 'services: { root: { user: nobody, working_dir: /srv, volumes: ["./x:/x"] } }',
    'shared/api.env': 'FROM_FILE=yes\n',
  })
  const web = service(project, 'web')
  assert.deepEqual([web.image, web.command, web.environment], ['a', ['two'], { A: '1', B: '3' }])
  assert.deepEqual(
    web.ports.map(({ target }) => target),
    [1, 2],
  )
  const api = service(project, 'api')
  assert.equal(api.build?.context, 'shared/api')
  assert.deepEqual([api.environment, api.user, api.workingDir], [{ FROM_FILE: 'yes' }, 'me', '/srv'])
  assert.deepEqual(
    api.mounts.map((mount) => ('source' in mount ? mount.source : 'name' in mount ? mount.name : '')),
    ['shared/deeper/x', 'own', 'shared/conf', 'shared'],
  )
  assert.deepEqual(api.healthcheck?.test, ['true'])
  assert.deepEqual([api.file, api.line], ['compose.yaml', 4])
  // A note of a service that two others use is said once.
  assert.equal(project.notes.filter(({ said }) => said.startsWith('labels')).length, 1)
  assert.deepEqual(
    project.services.map(({ name }) => name),
    ['base', 'api', 'web'],
  )
})

test('CMP-14 an override file extends a service of the file that it overrides', () => {
  const project = read(
    {
      'compose.yaml': 'services: { base: { image: a }, web: { image: w } }',
      'compose.override.yaml': 'services: { web: { extends: base, command: [x] } }',
    },
    { files: ['compose.yaml', 'compose.override.yaml'] },
  )
  assert.deepEqual([service(project, 'web').image, service(project, 'web').command], ['a', ['x']])
})

test('CMP-14 mistakes in extends are one error with file and line', () => {
  const web = (extended: string, more: Files = {}): AgentPodError =>
    refused({ 'compose.yaml': `services:\n  web:\n    image: a\n    extends: ${extended}\n`, ...more })
  const other = {
    'other.yaml': 'services: { webb: { image: a }, loop: { extends: { service: web, file: compose.yaml } } }',
  }
  const cases: readonly (readonly [AgentPodError, RegExp, RegExp])[] = [
    [
      web('web'),
      /^compose\.yaml:4:\d+: services\.web\.extends: services extend each other: compose\.yaml web → compose\.yaml web/,
      /remove/,
    ],
    [
      web('{ service: loop, file: other.yaml }', other),
      /services extend each other: .*web → other\.yaml loop → compose\.yaml web/,
      /remove/,
    ],
    [
      web('{ service: wbb, file: other.yaml }', other),
      /^compose\.yaml:4:\d+: .*other\.yaml has no service "wbb"/,
      /did you mean webb/,
    ],
    [
      web('{ service: a, file: gone.yaml }'),
      /^compose\.yaml:4:\d+: .*there is no file "gone\.yaml"/,
      /relative/,
    ],
    [
      web('{ service: a, file: ../up.yaml }'),
      /^compose\.yaml:4:\d+: .*"\.\.\/up\.yaml" is not in the project/,
      /relative path/,
    ],
    [
      web('{ service: a, file: /etc/passwd }'),
      /^compose\.yaml:4:\d+: .*is not in the project/,
      /relative path/,
    ],
    [
      web('{ service: p, file: other.yaml }', {
        'other.yaml': 'services:\n  p: { image: a, privileged: true }',
      }),
      /^other\.yaml:2:\d+: services\.p\.privileged/,
      /never privileged/,
    ],
    [
      web('{ service: p, file: other.yaml }', { 'other.yaml': 'services: [' }),
      /^other\.yaml:1:\d+: /,
      /(?:)/,
    ],
  ]
  for (const [error, message, hint] of cases) {
    assert.match(error.message, message)
    assert.match(error.hint ?? '', hint)
    assert.equal(error.message.split('\n').length, 1, error.message)
  }
})

test('CMP-14 files are included with their own directory and variables, and may be overridden', () => {
  const files = {
    'compose.yaml': `include:
  - db/compose.yaml
  - { path: [queue/a.yaml, queue/b.yaml], project_directory: ., env_file: queue.env }
services:
  web: { image: w, depends_on: [db, queue] }
`,
    'compose.override.yaml': 'services: { db: { environment: { MORE: 1 } } }',
    '.env': 'SHARED=outer\n',
    'db/compose.yaml':
      'include: [../files.yaml]\nservices: { db: { image: "pg:$VERSION-$SHARED", volumes: ["data:/d", "./init:/i"], secrets: [pw] } }\nvolumes: { data: }\nsecrets: { pw: { file: pw.txt } }',
    'db/.env': 'VERSION=16\nSHARED=inner\n',
    'queue/a.yaml': 'services: { queue: { image: q, volumes: ["./q:/q"] } }',
    'queue/b.yaml': 'services: { queue: { command: ["$NAME"] } }',
    'queue.env': 'NAME=named\n',
    'files.yaml': 'services: { files: { image: f } }',
  }
  const project = read(files, { files: ['compose.yaml', 'compose.override.yaml'] })
  const db = service(project, 'db')
  assert.equal(db.image, 'pg:16-outer')
  assert.deepEqual(db.environment, { MORE: '1' })
  assert.deepEqual(
    db.mounts.map((mount) => ('source' in mount ? mount.source : 'name' in mount ? mount.name : '')),
    ['data', 'db/init'],
  )
  assert.deepEqual(db.files, [{ target: '/run/secrets/pw', file: 'db/pw.txt', content: undefined }])
  assert.deepEqual([db.file, db.line], ['db/compose.yaml', 2])
  const queue = service(project, 'queue')
  assert.deepEqual(queue.command, ['named'])
  assert.deepEqual(queue.mounts, [{ kind: 'bind', source: 'q', target: '/q', isReadOnly: false }])
  assert.ok(service(project, 'files'))
  assert.equal(project.services.at(-1)?.name, 'web')
})

test('CMP-14 mistakes in include are one error with file and line', () => {
  const with_ = (include: string, more: Files = {}, o: Parameters<typeof read>[1] = {}): AgentPodError =>
    refused({ 'compose.yaml': `services: { web: { image: a } }\ninclude:\n  - ${include}\n`, ...more }, o)
  const cases: readonly (readonly [AgentPodError, RegExp])[] = [
    [with_('gone.yaml'), /^compose\.yaml:3:\d+: include\.0: there is no file "gone\.yaml"$/],
    [with_('../up.yaml'), /^compose\.yaml:3:\d+: include\.0: "\.\.\/up\.yaml" is not in the project$/],
    [with_('oci://example.com/x'), /is not in the project$/],
    [with_('https://example.com/x.yaml'), /is not in the project$/],
    [with_('compose.yaml'), /files include each other: compose\.yaml → compose\.yaml/],
    [
      with_('b.yaml', { 'b.yaml': 'include: [compose.yaml]' }),
      /^b\.yaml:1:\d+: .*compose\.yaml → b\.yaml → compose\.yaml/,
    ],
    [
      with_('b.yaml', { 'b.yaml': 'services: { web: { image: b } }' }),
      /^compose\.yaml:1:\d+: services\.web: is in b\.yaml too/,
    ],
    [
      with_('b.yaml', { 'b.yaml': 'services:\n  b: { image: b, network_mode: host }' }),
      /^b\.yaml:2:\d+: services\.b\.network_mode/,
    ],
    [
      with_('{ path: b.yaml, env_file: no.env }', { 'b.yaml': 'services: { b: { image: b } }' }),
      /there is no file "no\.env"/,
    ],
  ]
  for (const [error, message] of cases) {
    assert.match(error.message, message)
    assert.equal(error.message.split('\n').length, 1, error.message)
  }
  assert.match(with_('x.yaml', {}, { leftOut: ['x.yaml'] }).hint ?? '', /git ignores x\.yaml/)
})

test('CMP-14 CF-02: many files that include each other in a tree end with one error in bounded time', () => {
  const files: Record<string, string> = {}
  for (let n = 0; n < 60; n++)
    files[`f${n}.yaml`] = `include: [${[2 * n + 1, 2 * n + 2]
      .filter((one) => one < 60)
      .map((one) => `f${one}.yaml`)
      .join(', ')}]`
  files['compose.yaml'] = 'include: [f0.yaml]\nservices: { web: { image: a } }'
  assert.match(refused(files).message, /at most 32 compose files/)
  // Two files for each level: without the memory of what was read this takes 2^30 readings.
  const diamond: Record<string, string> = {
    'compose.yaml': 'include: [a0.yaml, b0.yaml]\nservices: { web: { image: a } }',
  }
  for (let n = 0; n < 14; n++)
    for (const name of ['a', 'b'])
      diamond[`${name}${n}.yaml`] =
        n === 13 ? `services: { ${name}: { image: x } }` : `include: [a${n + 1}.yaml, b${n + 1}.yaml]`
  assert.equal(read(diamond).services.length, 3)
})

test('CMP-3 a variable that is not set says what sets it, with its line', () => {
  const text = 'services:\n  web: { image: a }\n  db:\n    image: pg:$VERSION\n    environment: [OTHER]\n'
  const plain = read({ 'compose.yaml': text.replace('$VERSION', '1$VERSION') })
  const said = ({ notes }: ComposeProject): string[] =>
    notes.map((note) => `${note.file}:${note.line}: ${note.said}`)
  assert.deepEqual(said(plain), [
    'compose.yaml:4: the variable VERSION is not set and counts as empty; write VERSION=VALUE into .env',
    'compose.yaml:5: the variable OTHER has no value; write OTHER=VALUE into .env',
  ])
  const hidden = read({ 'compose.yaml': text.replace('$VERSION', '1$VERSION') }, { leftOut: ['.env'] })
  assert.match(
    said(hidden)[0] ?? '',
    /\.env is not read, because git ignores it: write a default, \$\{VERSION:-VALUE\}/,
  )
  const required = refused(
    { 'compose.yaml': text.replace('$VERSION', '${VERSION:?no version}') },
    { leftOut: ['.env'] },
  )
  assert.match(
    required.message,
    /^compose\.yaml:4:\d+: .*VERSION is required: no version; \.env is not read, because git ignores it/,
  )
})

test('CMP-4 values that would fail only when the service starts are errors with their line', () => {
  const wrong = (value: string): string =>
    refused({ 'compose.yaml': `services:\n  db: { image: a, ${value} }\n` }).message
  assert.match(
    refused({ 'compose.yaml': 'services:\n  db: { image: "no image!" }\n' }).message,
    /^compose\.yaml:2:\d+: services\.db\.image: "no image!" is not/,
  )
  assert.match(wrong('user: "1:2:3; rm"'), /^compose\.yaml:2:\d+: services\.db\.user: .* is not a user/)
  assert.match(
    wrong('working_dir: srv'),
    /^compose\.yaml:2:\d+: services\.db\.working_dir: "srv" is not an absolute/,
  )
  const { notes } = read({
    'compose.yaml':
      'services:\n  db: { image: a, stop_signal: SIGSTOP, stop_grace_period: 5m, user: "1000:1000" }\n',
  })
  assert.deepEqual(
    notes.map(({ said }) => said),
    ['stop_signal SIGSTOP is not used: SIGTERM is', 'stop_grace_period is at most 30 s'],
  )
})

test('CMP-5 a host name that a member cannot have is named once, with its line', () => {
  const project = read({
    'compose.yaml':
      'services:\n  my_db:\n    image: a\n    hostname: db.example.com\n    container_name: My_DB\n    networks: { default: { aliases: [ok, localhost] } }\n',
  })
  assert.deepEqual(service(project, 'my_db').aliases, ['ok'])
  assert.deepEqual(
    project.notes.map(({ line, said }) => `${line} ${said.split(':')[0]}`),
    [
      '2 the service my_db is reached as my-db',
      '6 the host name localhost is not used',
      '4 the host name db.example.com is not used',
      '5 the host name My_DB is not used',
    ],
  )
  assert.match(
    refused({ 'compose.yaml': 'services:\n  api.example.com: { image: a }\n' }).message,
    /^compose\.yaml:2:\d+: services\.api\.example\.com: api\.example\.com cannot be the host name of a service/,
  )
})
