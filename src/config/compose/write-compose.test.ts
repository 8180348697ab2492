import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plan } from '../testing/plan-parts.ts'
import { readCompose } from './compose-project.ts'
import type { ComposeService } from './model.ts'
import { type ComposeExtras, composeText } from './write-compose.ts'

type Plan = Awaited<ReturnType<typeof plan>>

/** The service of the project, as our own reader understands the written file. */
function appOf(made: Plan, extras?: ComposeExtras): { app: ComposeService; text: string } {
  const text = composeText(made, extras)
  const { services } = readCompose({
    files: ['compose.yaml'],
    read: (file) => (file === 'compose.yaml' ? text : undefined),
  })
  const app = services.find(({ name }) => name === 'app')
  assert.ok(app)
  return { app, text }
}

test('CMP-9 a Dockerfile is named relative to its context, where Docker looks for it', async () => {
  const made = await plan({ image: 'x' })
  const dockerfile = { file: 'docker/dev/Dockerfile', context: 'docker', target: 'dev', args: {}, images: [] }
  const { app } = appOf({ ...made, resolvedBase: { ...made.resolvedBase, dockerfile } })
  assert.deepEqual(app.build, { context: 'docker', dockerfile: 'dev/Dockerfile', target: 'dev', args: {} })
})

test('CMP-9 volumes, directories in memory and limits of agentpod.toml are in the file', async () => {
  const made = await plan({ image: 'x' })
  const { app, text } = appOf(
    { ...made, resources: { cpus: 1, memoryMib: 512 } },
    {
      volumes: [
        { name: 'cache', path: '~/.cache', isReadOnly: false },
        { name: 'tools', path: '/opt/tools', isReadOnly: true },
      ],
      ephemeral: [{ path: 'tmp/cache', sizeMib: 64 }],
      user: 'me',
    },
  )
  assert.deepEqual(app.mounts, [
    { kind: 'bind', source: '', target: '/workspace', isReadOnly: false },
    { kind: 'volume', name: 'cache', target: '/root/.cache', isReadOnly: false },
    { kind: 'volume', name: 'tools', target: '/opt/tools', isReadOnly: true },
    { kind: 'tmpfs', target: '/workspace/tmp/cache', sizeMib: 64 },
  ])
  assert.deepEqual([app.cpus, app.memoryMib], [1, 512])
  assert.match(text, /^# user me of \[environment\] is not used/m)
})
