import { test } from 'node:test'
import { OTHER_VMMS } from '../../src/providers/qemu/vm-files.ts'
import { describeContract } from '../support/provider-contract.ts'
import { NO_QEMU, openOther, openQemu, whyNot } from '../support/qemu.ts'

const TITLE = 'PROV-2 PROV-11 the provider contract on virtual machines'

if (NO_QEMU) test(TITLE, { skip: NO_QEMU }, () => undefined)
else describeContract(TITLE, openQemu)

for (const vmm of OTHER_VMMS) {
  const title = `${TITLE} with ${vmm}`
  const reason = whyNot(vmm)
  if (reason) test(title, { skip: reason }, () => undefined)
  else describeContract(title, () => openOther(vmm))
}
