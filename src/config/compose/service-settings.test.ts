import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readCompose } from './compose-project.ts'
import { memberService } from './member-plan.ts'
import type { ComposeProject, ComposeService } from './model.ts'
import { serviceSettings, serviceVolumes, unusedSettings } from './service-settings.ts'

function read(web: string, more = ''): { project: ComposeProject; web: ComposeService } {
  const text = `services:\n  web: { image: a, ${web} }\n${more}`
  const project = readCompose({
    files: ['compose.yaml'],
    read: (file) => (file === 'compose.yaml' ? text : undefined),
  })
  const found = project.services.find(({ name }) => name === 'web')
  assert.ok(found)
  return { project, web: found }
}

test('CMP-15 the project is where the service mounts it, but never in a directory of the system', () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ['".:/app"', '/app'],
    ['".:/app/"', '/app'],
    ['".:/usr/src/app"', '/usr/src/app'],
    ['".:/var/www/html"', '/var/www/html'],
    ['"./src:/code/src"', '/code'],
    ['"./conf/a.conf:/etc/a.conf"', undefined],
    ['".:/usr"', undefined],
    ['".:/usr/bin"', undefined],
    ['".:/etc"', undefined],
    ['".:/var/lib"', undefined],
  ]
  for (const [mount, workspace] of cases)
    assert.equal(serviceSettings(read(`volumes: [${mount}]`).web).workspace, workspace, mount)
  const { web } = read('volumes: [".:/etc"]')
  assert.match(unusedSettings(web)[0] ?? '', /^compose\.yaml:2: service web: the project is not at \/etc/)
})

test('CMP-15 volumes in the project stay directories, others are mounted, and shared ones always', () => {
  const { project, web } = read(
    'volumes: [".:/app", "mods:/app/node_modules", "a:/a", "b:/b:ro", /anonymous]',
    '  db: { image: a, volumes: ["b:/b"] }\nvolumes: { mods: , a: , b: }\n',
  )
  assert.deepEqual(serviceVolumes(project, web), [
    { name: 'a', path: '/a', isReadOnly: false, isShared: false },
    { name: 'b', path: '/b', isReadOnly: true, isShared: true },
  ])
  const { kept, directories } = serviceSettings(web)
  assert.deepEqual([kept, directories], [['node_modules'], ['/a', '/b', '/anonymous']])
})

test('CMP-15 a variable whose name a shell cannot have is given to the program of a member', () => {
  const { web } = read('command: [run, it], environment: { discovery.type: single node, PLAIN: 1 }')
  const { run, variables } = memberService(web, {
    entrypoint: [],
    command: [],
    user: undefined,
    workdir: undefined,
  })
  assert.equal(run, "exec env 'discovery.type=single node' run it")
  assert.deepEqual(variables, { PLAIN: '1' })
  assert.match(unusedSettings(web).join('\n'), /the variable discovery\.type is not set here/)
})
