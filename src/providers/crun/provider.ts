/**
 * Sandboxes made of namespaces, cgroups and a seccomp filter, started by podhost on this machine. The name is
 * that of the OCI runtime that earlier versions used; it is in records and in configurations.
 */
import type { Provider } from '../../core/provider.ts'
import { localProvider } from '../local/driver.ts'
import type { LocalImages } from '../local/images/images.ts'
import type { Podhost } from '../local/podhost.ts'

export function crun(podhost: Podhost, exchange: string, images?: LocalImages): Provider {
  return localProvider({ name: 'crun', isolation: 'container', podhost, exchange, images })
}
