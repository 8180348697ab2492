import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { machineFiles } from './vm-files.ts'

test('QEMU runs virtual machines unless AGENTPOD_VMM names another program', () => {
  for (const vmm of [undefined, '', 'qemu']) {
    const files = machineFiles({ AGENTPOD_VMM: vmm, AGENTPOD_QEMU: '/q', AGENTPOD_VM_KERNEL: '/k' })
    assert.deepEqual(files, { qemu: '/q', kernel: '/k' })
  }
})

test('another program is where its variable says, on the PATH, or missing where it is expected', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentpod-vmm-'))
  writeFileSync(join(dir, 'jailer'), '')
  const env = { AGENTPOD_VMM: 'firecracker', AGENTPOD_VM_KERNEL: '/k', PATH: `/nowhere:relative:${dir}` }
  const { vmm, firecracker, jailer, cloudHypervisor } = machineFiles(env)
  assert.deepEqual(
    [vmm, firecracker, jailer, cloudHypervisor],
    ['firecracker', '/usr/bin/firecracker', join(dir, 'jailer'), undefined],
  )
  const named = machineFiles({ AGENTPOD_VMM: 'cloud-hypervisor', AGENTPOD_CLOUD_HYPERVISOR: '/c' })
  assert.deepEqual(
    [named.vmm, named.cloudHypervisor, named.firecracker],
    ['cloud-hypervisor', '/c', undefined],
  )
  rmSync(dir, { recursive: true })
})

test('an unknown AGENTPOD_VMM is refused with the names that are known', () => {
  assert.throws(
    () => machineFiles({ AGENTPOD_VMM: 'xen' }),
    (error) => isAgentPodError(error) && /cloud-hypervisor, firecracker/.test(error.hint ?? ''),
  )
})
