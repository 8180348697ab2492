/** Builds and services on real sandboxes: what fakes cannot show. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, test } from 'node:test'
import type { BuildRequest } from '../../src/api/schema/build.ts'
import { isAgentPodError, type Sandbox } from '../../src/exports/client.ts'
import { until, World } from '../support/world.ts'

type Step = BuildRequest['recipe']['steps'][number]

const world = new World()
const pod = world.client()
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

const recipe = (step: Partial<Step>): BuildRequest['recipe'] => ({
  base: { name: 'host' },
  steps: [{ name: 'one', title: 'one', run: 'true', ...step }],
})
const shell = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout

/** Serial numbers of the authorities of sandboxes that programs inside trust. */
async function trusted(sandbox: Sandbox): Promise<string[]> {
  const bundle = await shell(sandbox, 'cat /etc/ssl/certs/ca-certificates.crt')
  const all = bundle.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? []
  return all
    .map((text) => new X509Certificate(text))
    .filter(({ subject }) => /agentpod/i.test(subject))
    .map(({ serialNumber }) => serialNumber)
}

for (const [what, step] of [
  ['a step of the user’s', { run: 'id', user: 'user' }],
  // Packages do that when they are installed.
  [
    'a step that makes new bundles',
    { run: 'if command -v update-ca-certificates; then update-ca-certificates; fi' },
  ],
] as const)
  test(`SECURITY: SE-09. ${what} leaves nothing of what its sandbox trusted`, async () => {
    let before = ''
    const { digest } = await pod.builds.build(
      recipe({
        ...step,
        run: `${step.run}\ngrep -c AgentPod /etc/ssl/certs/ca-certificates.crt || true; ls /usr/local/share/ca-certificates`,
        network: [{ host: 'a.example.com' }],
      }),
      { onOutput: (_, data) => (before += data.toString()) },
    )
    assert.match(before, /agentpod\.crt/, 'the control: it was there')
    await using sandbox = await pod.create({ environment: { digest } })
    assert.equal((await trusted(sandbox)).length, 1, 'its own, and no other')
    await pod.builds.prune(0)
  })

test('SECURITY: what root may do in a build nobody may who stands on it', async () => {
  const { digest } = await pod.builds.build(recipe({ run: 'id -u; touch /opt/mine && chown 1000 /opt/mine' }))
  await using sandbox = await pod.create({ environment: { digest } })
  assert.equal(
    await shell(sandbox, 'stat -c %u /opt/mine; grep NoNewPrivs /proc/self/status'),
    '1000\nNoNewPrivs:\t1\n',
  )
})

test('a step that hangs is ended when its time is over, with everything it started', async () => {
  const startedAt = performance.now()
  await assert.rejects(
    pod.builds.build(recipe({ name: 'slow', run: 'echo begun; sleep 600 & sleep 600', timeoutMs: 1000 })),
    (error) => isAgentPodError(error, 'deadline_exceeded') && error.reason === 'build.step_late',
  )
  assert.ok(performance.now() - startedAt < 60_000)
  assert.deepEqual(await pod.list(), [])
})

test('a build that somebody leaves leaves nothing', async () => {
  const leave = new AbortController()
  const building = pod.builds.build(recipe({ name: 'left', run: 'echo begun; sleep 600' }), {
    signal: leave.signal,
    onOutput: () => leave.abort(),
  })
  await assert.rejects(building)
  await until('the sandbox is gone', async () => (await pod.list()).length === 0)
})

test('a service that failed is started again when it can', async () => {
  await using sandbox = await pod.create({
    environment: {
      services: [
        {
          name: 'web',
          run: 'test -f /tmp/config || { echo no config >&2; exit 3; }; exec sleep 600',
          user: 'user',
          workdir: '',
          variables: {},
          needsProject: true,
          stopSignal: 'SIGTERM',
          stopMs: 1000,
          ready: { command: 'test -f /tmp/config', timeoutMs: 10_000 },
        },
      ],
    },
  })
  await assert.rejects(
    sandbox.begin(),
    (error) => isAgentPodError(error) && /ended with code 3:\nno config$/.test(error.message),
  )
  await shell(sandbox, 'touch /tmp/config')
  await sandbox.begin()
  await sandbox.begin()
  const running = (await sandbox.processes()).filter(
    ({ tag, endedAt }) => tag?.startsWith('agentpod.service.web') && !endedAt,
  )
  assert.equal(running.length, 1)
})
