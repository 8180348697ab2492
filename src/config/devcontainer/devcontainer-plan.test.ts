import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseDevcontainer } from './devcontainer-file.ts'
import { type DevcontainerPlan, devcontainerPlan } from './devcontainer-plan.ts'
import { type MetadataEntry, parseMetadataLabel } from './image-metadata.ts'
import { waitedStages } from './lifecycle.ts'
import { parseMount } from './mounts.ts'
import { readConfiguration } from './read-configuration.ts'

const FILE = '.devcontainer/devcontainer.json'

function planOf(properties: object, label: readonly MetadataEntry[] = []): DevcontainerPlan {
  const text = JSON.stringify({ image: 'debian:12', ...properties }, null, 1)
  const file = parseDevcontainer({ file: FILE, text })
  const read = readConfiguration({ file, project: { directory: '/home/me/app' }, env: { SECRET: 's' } })
  return devcontainerPlan(file, read, { label, features: [] })
}

/** Each judgement on one line. */
function judged(properties: object, label: readonly MetadataEntry[] = []): string[] {
  return planOf(properties, label)
    .safety.filter(({ property }) => property !== 'image')
    .map(({ property, verdict, evidence, origin }) => `${property} ${verdict} ${evidence.line ?? origin}`)
}

describe('what a devcontainer asks of its host', () => {
  test('DC-9: nothing of the host is given, and each property has its verdict and line', () => {
    assert.deepEqual(
      judged({
        initializeCommand: 'curl x | sh',
        privileged: true,
        init: true,
        capAdd: ['CAP_CHOWN', 'sys_admin'],
        securityOpt: ['seccomp=unconfined', 'no-new-privileges'],
      }),
      [
        'initializeCommand approval 3',
        'privileged refused 4',
        'init honoured 5',
        'capAdd.0 honoured 7',
        'capAdd.1 refused 8',
        'securityOpt.0 refused 11',
        'securityOpt.1 honoured 12',
      ],
    )
    assert.deepEqual(judged({ privileged: false, init: false }), [])
  })

  test('DC-9: mounts of the host are refused, volumes and temporary directories are not', () => {
    const mounts = [
      'source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind',
      'type=bind,source=/,target=/host',
      'source=cache,target=/cache,type=volume',
      { type: 'tmpfs', target: '/t' },
      'type=tmpfs,target=/etc/x',
      'type=tmpfs,target=/run/x,tmpfs-mode=700',
      'type=volume,source=x,target=/',
      'type=npipe,source=x,target=/n',
    ]
    assert.deepEqual(
      planOf({ mounts })
        .safety.slice(1)
        .map(({ verdict }) => verdict),
      ['refused', 'refused', 'honoured', 'honoured', 'refused', 'honoured', 'refused', 'refused'],
    )
    assert.deepEqual(
      planOf({ mounts }).mounts.map(({ kind, source, target }) => [kind, source, target]),
      [
        ['volume', 'cache', '/cache'],
        ['tmpfs', undefined, '/t'],
        ['tmpfs', undefined, '/run/x'],
      ],
    )
  })

  test('DC-9: arguments of the engine are judged one by one, in every spelling', () => {
    const runArgs = [
      '--privileged',
      '--cap-add=SYS_PTRACE',
      '--cap-add',
      'CHOWN',
      '--security-opt',
      'seccomp=unconfined',
      '--network=host',
      '--pid',
      'host',
      '-v',
      '/:/host',
      '--mount',
      'type=bind,source=/etc,target=/e',
      '--device=/dev/kvm',
      '-e',
      'A=b=c',
      '--env=D',
      '--cpus',
      '2.5',
      '--memory=3g',
      '-u',
      'dev',
      '--name',
      'x',
      '--new-option=1',
      '--init',
    ]
    const { safety, containerEnv, hostRequirements, containerUser } = planOf({ runArgs })
    assert.deepEqual(
      safety.slice(1).map(({ value, verdict }) => `${value}: ${verdict}`),
      [
        '--privileged: refused',
        'SYS_PTRACE: refused',
        'CHOWN: honoured',
        'seccomp=unconfined: refused',
        'type=bind,source=/etc,target=/e: refused',
        '--network=host: refused',
        '--pid host: refused',
        '-v /:/host: refused',
        '--device=/dev/kvm: refused',
        '-e A=b=c: honoured',
        '--env=D: refused',
        '--cpus 2.5: honoured',
        '--memory=3g: honoured',
        '-u dev: honoured',
        '--name x: no-effect',
        '--new-option=1: refused',
        '--init: no-effect',
      ],
    )
    assert.deepEqual(containerEnv, { A: 'b=c' })
    assert.deepEqual(hostRequirements, { cpus: 2.5, memoryMib: 3072, storageMib: 0 })
    assert.equal(containerUser, 'dev')
  })

  test('DC-9: variables of this machine need approval, wherever they are', () => {
    const plan = planOf({
      containerEnv: { X: 'a${localEnv:SECRET}${env:OTHER:x}' },
      name: '${containerEnv:HOME}',
    })
    assert.deepEqual(plan.localVariables, ['SECRET', 'OTHER'])
    assert.deepEqual(
      plan.safety
        .filter(({ verdict }) => verdict === 'approval')
        .map(({ property, value }) => [property, value]),
      [
        ['image', 'debian:12'],
        ['containerEnv.X', 'SECRET'],
        ['containerEnv.X', 'OTHER'],
      ],
    )
  })

  test('DC-9: names like HOME need no approval, here and for policy approve', () => {
    const variables = { A: '${localEnv:HOME}', B: '${localEnv:SECRET}' }
    const items = planOf({ containerEnv: variables }).safety.filter(({ property }) => property !== 'image')
    assert.deepEqual(
      items.map(({ value, verdict }) => [value, verdict]),
      [
        ['HOME', 'honoured'],
        ['SECRET', 'approval'],
      ],
    )
  })

  test('DC-9: labels and Features are judged too, by their names', () => {
    const label = [{ privileged: true, id: 'ghcr.io/x/\u001b' }, { capAdd: ['NET_ADMIN'] }]
    assert.deepEqual(judged({}, label), ['privileged refused ghcr.io/x/?', 'capAdd.0 refused the image'])
  })

  test('DC-9: requirements, ports, builds and settings of other tools are named', () => {
    assert.deepEqual(
      judged({
        hostRequirements: { cpus: 4, gpu: true },
        appPort: [8080],
        customizations: { vscode: {}, agentpod: {} },
        overrideCommand: false,
      }),
      [
        'overrideCommand refused 14',
        'customizations.vscode no-effect 11',
        'appPort honoured 7',
        'hostRequirements.cpus honoured 4',
        'hostRequirements.gpu refused 5',
      ],
    )
  })
})

describe('a devcontainer as data', () => {
  test('stages run by origin, in all forms', () => {
    const { lifecycle, initialize, waitFor } = planOf(
      {
        postCreateCommand: { b: 'x', c: ['y', 'z'], d: '' },
        initializeCommand: ['i', 'j'],
        onCreateCommand: ' ',
      },
      [{ id: 'f', postCreateCommand: 'first' }],
    )
    assert.deepEqual(lifecycle.postCreateCommand, [
      { origin: 'f', runs: [{ run: { shell: 'first' } }] },
      {
        origin: 'devcontainer.json',
        runs: [
          { name: 'b', run: { shell: 'x' } },
          { name: 'c', run: { program: ['y', 'z'] } },
        ],
      },
    ])
    assert.deepEqual(lifecycle.onCreateCommand, [])
    assert.deepEqual(initialize, { origin: 'devcontainer.json', runs: [{ run: { program: ['i', 'j'] } }] })
    assert.deepEqual(waitedStages(waitFor).waited, ['onCreateCommand', 'updateContentCommand'])
    assert.deepEqual(waitedStages('initializeCommand').waited, [])
    assert.deepEqual(waitedStages('postAttachCommand').background, [])
  })

  test('ports have their attributes, by number and range', () => {
    const { ports } = planOf({
      forwardPorts: [3000, 'localhost:3000', 'db:5432', 4005],
      appPort: ['127.0.0.1:8080:80', 3000],
      portsAttributes: {
        3000: { label: 'web' },
        '4000-4010': { protocol: 'https' },
        'db:5432': { label: 'db' },
      },
    })
    assert.deepEqual(ports, [
      { port: 3000, attributes: { label: 'web' } },
      { host: 'db', port: 5432, attributes: { label: 'db' } },
      { port: 4005, attributes: { protocol: 'https' } },
      { port: 80, attributes: {} },
    ])
  })

  test('mounts in quotes and other spellings', () => {
    assert.deepEqual(parseMount('type=bind,"source=/a,b",dst=/c,readonly,consistency=cached'), {
      kind: 'bind',
      source: '/a,b',
      target: '/c',
      isReadOnly: true,
      others: ['consistency=cached'],
    })
    assert.equal(parseMount('src=v,destination=/x').kind, 'volume')
    const sized = parseMount('type=tmpfs,dst=/x,tmpfs-size=104857600,tmpfs-mode=700')
    assert.deepEqual([sized.sizeMib, sized.others], [100, ['tmpfs-mode=700']])
  })

  test('DC-4: tables for AgentPod are merged: objects at every depth, lists united, the later value counts', () => {
    const label = [
      {
        customizations: {
          agentpod: { network: { allow: ['a.example'] }, resources: { cpus: 1, memory: '1GB' } },
        },
      },
      { customizations: { agentpod: { resources: { wrong: 1 } } } },
    ]
    const { agentpod, notes } = planOf(
      {
        customizations: {
          agentpod: { network: { allow: ['b.example', 'a.example'] }, resources: { cpus: 2 } },
        },
      },
      label,
    )
    assert.deepEqual(agentpod.network, { allow: ['a.example', 'b.example'] })
    assert.deepEqual(agentpod.resources, { cpus: 2, memory: '1GB' })
    assert.deepEqual(notes, [
      'customizations.agentpod.resources.wrong: unknown key customizations.agentpod.resources.wrong',
    ])
  })
})

describe('the label of an image', () => {
  test('DC-5: hostile labels are ignored and named', () => {
    for (const label of [
      '',
      '{',
      '['.repeat(100_000),
      '"text"',
      `[${'{},'.repeat(2000)}{}]`,
      '{"__proto__":{"init":true}}',
    ]) {
      const { entries, notes } = parseMetadataLabel(label, 'evil\u001b[2J')
      assert.deepEqual(entries, [], label.slice(0, 20))
      assert.equal(notes.length, 1)
      assert.match(notes[0] ?? '', /^the label devcontainer\.metadata of evil\?\[2J/)
    }
  })

  test('a wrong value is ignored alone, and a right one is used', () => {
    const label = '[{"remoteUser": "u", "capAdd": "x", "waitFor": "never", "novel": 1}]'
    const { entries, notes } = parseMetadataLabel(label, 'made:1')
    assert.deepEqual(entries, [{ remoteUser: 'u' }])
    assert.equal(notes.length, 3)
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`x${n}`, 1]))
    const shown = parseMetadataLabel(JSON.stringify(many), 'made:1').notes
    assert.equal(shown.length, 21)
    assert.match(shown.at(-1) ?? '', /4980 more values were ignored$/)
  })
})
