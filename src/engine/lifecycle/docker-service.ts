/** The Docker engine inside a sandbox: a service that is ready before any command runs. */
import type { Environment, Service } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Provider } from '../../core/provider.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import { CALL } from '../call.ts'

export const DOCKER_SERVICE = 'docker-engine'

/** podd's resolver answers containers there. */
const RESOLVER = '10.255.0.1'
/** Within the addresses that podd leaves to containers. */
const BRIDGE = '172.17.0.1/24'
const POOL = 'base=172.18.0.0/15,size=24'

/**
 * The engine changes no rules of iptables outside its containers: podd's lead every connection to it. Inside
 * them it uses the older interface of iptables, the only one that gVisor has; virtual machines have it too.
 */
function engineScript(user: string): string {
  return `set -e
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
for program in dockerd containerd iptables-legacy; do
  command -v "$program" >/dev/null || { echo "$program is not installed in this environment" >&2; exit 127; }
done
mkdir -p /run/agentpod-docker
for name in iptables ip6tables; do ln -sf "$(command -v $name-legacy)" /run/agentpod-docker/$name; done
export PATH="/run/agentpod-docker:$PATH"
rm -f /run/docker.pid /run/docker/containerd/containerd.pid
exec dockerd --host unix:///run/docker.sock --group "$(id -gn ${shellWord(user)})" --data-root /var/lib/docker \\
  --iptables=false --ip6tables=false --bip ${BRIDGE} --default-address-pool ${POOL} --dns ${RESOLVER}`
}

function dockerService(user: string): Service {
  return {
    name: DOCKER_SERVICE,
    run: engineScript(user),
    user: 'root',
    workdir: '/',
    variables: {},
    // In an emulated machine on a busy host, a start takes a minute.
    ready: { command: 'docker version', timeoutMs: 180_000 },
    needsProject: false,
    stopSignal: 'SIGTERM',
    stopMs: 15_000,
  }
}

/** The engine starts before the other services, which may use it. */
export function withDockerService(environment: Environment): Environment {
  const others = (environment.services ?? []).filter(({ name }) => name !== DOCKER_SERVICE)
  return { ...environment, services: [dockerService(environment.user), ...others] }
}

/**
 * SECURITY: an engine needs all capabilities. On a kernel that is shared with the host they would reach the
 * host.
 */
export async function requireDocker(provider: Provider): Promise<void> {
  if ((await provider.capabilities(CALL)).docker) return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'docker.unsupported',
    message: `sandboxes on ${provider.name} cannot run a Docker engine`,
    hint: 'use the level `gvisor` or `vm`: `--isolation gvisor`, or `isolation = "gvisor"` in agentpod.toml',
  })
}
