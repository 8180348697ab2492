/** Builds and services on real sandboxes: what fakes cannot show. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, test } from 'node:test'
import type { BuildRequestBody } from '../../src/api/schema/build.ts'
import { isAgentPodError, type Sandbox } from '../../src/exports/client.ts'
import { until, World } from '../support/world.ts'

type Step = BuildRequestBody['recipe']['steps'][number]

const world = new World()
/** These steps write below /usr of the host base. */
const READ_ONLY =
  process.getuid?.() !== 0 &&
  'the host base is read-only below /usr for an ordinary user: root can, or a base of `debian`'
const pod = world.client()
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

const recipe = (step: Partial<Step>): BuildRequestBody['recipe'] => ({
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
  test(`SECURITY: SE-09. ${what} leaves nothing that its sandbox trusted`, {
    skip: READ_ONLY,
  }, async () => {
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

test('SECURITY: root’s rights in a build do not pass to sandboxes on its layer', {
  skip: READ_ONLY,
}, async () => {
  const { digest } = await pod.builds.build(recipe({ run: 'id -u; touch /opt/mine && chown 1000 /opt/mine' }))
  await using sandbox = await pod.create({ environment: { digest } })
  assert.equal(
    await shell(sandbox, 'stat -c %u /opt/mine; grep NoNewPrivs /proc/self/status'),
    '1000\nNoNewPrivs:\t1\n',
  )
})

test('extras lie over a built environment, over what a snapshot of it changed, and stay with its copies', {
  skip: READ_ONLY,
}, async () => {
  const build = async (dir: string): Promise<string> => {
    const run = `mkdir -p /usr/lib/agentpod-${dir}/bin && echo ${dir} > /usr/lib/agentpod-${dir}/bin/said && echo ${dir} >> /usr/lib/shared`
    const { digest } = await pod.builds.build(recipe({ run }))
    assert.ok(digest)
    return digest
  }
  const [digest, extra, other] = [await build('project'), await build('x'), await build('y')]
  const said = (sandbox: Sandbox): Promise<string> =>
    shell(sandbox, 'cd /usr/lib; cat agentpod-*/bin/said own/file shared; ls -d /usr/lib/agentpod-y 2>&1')
  await using project = await pod.create({ environment: { digest } })
  // Its upper has an /usr/lib of its own then.
  const script = 'chmod 775 /usr/lib && mkdir /usr/lib/own && echo own > /usr/lib/own/file'
  assert.equal((await project.exec('sh', { args: ['-c', script], user: 'root' }).wait()).exitCode, 0)
  const { id: snapshot } = await project.snapshot()
  await using one = await pod.create({ snapshot, environment: { extras: [extra] } })
  assert.equal(
    await said(one),
    "project\nx\nown\nx\nls: cannot access '/usr/lib/agentpod-y': No such file or directory\n",
  )
  assert.equal(await shell(one, 'stat -c %a /usr/lib /usr/lib/agentpod-x'), '775\n755\n')
  await one.stop()
  await one.start()
  const { id: begun } = await one.snapshot()
  await using two = await pod.create({ snapshot: begun, environment: { extras: [other] } })
  const all = 'project\nx\ny\nown\ny\n/usr/lib/agentpod-y\n'
  assert.equal(await said(two), all)
  const [fork] = await two.fork()
  assert.ok(fork)
  assert.equal(await said(fork), all)
  await fork.destroy()
  await pod.builds.prune(0)
  assert.equal(await said(two), all, 'and nothing is removed that it stands on')
})

test('a build step that hangs is ended when its time is over, with everything it started', async () => {
  const startedAt = performance.now()
  await assert.rejects(
    pod.builds.build(recipe({ name: 'slow', run: 'echo begun; sleep 600 & sleep 600', timeoutMs: 1000 })),
    (error) => isAgentPodError(error, 'deadline_exceeded') && error.reason === 'build.step_late',
  )
  assert.ok(performance.now() - startedAt < 60_000)
  assert.deepEqual(await pod.list(), [])
})

test('a build whose client leaves leaves nothing', async () => {
  const leave = new AbortController()
  const building = pod.builds.build(recipe({ name: 'left', run: 'echo begun; sleep 600' }), {
    signal: leave.signal,
    onOutput: () => leave.abort(),
  })
  await assert.rejects(building)
  await until('the sandbox is gone', async () => (await pod.list()).length === 0)
})

test('a service that failed can be started again', async () => {
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
