/** The Docker engine inside a sandbox: a service that is ready before any command runs. */
import type { Environment, Service } from '../../core/environment.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import type { ProcessExit } from '../../core/guest-process.ts'
import type { Provider } from '../../core/provider.ts'
import type { Spec } from '../../core/spec.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import { CALL } from '../call.ts'

export const DOCKER_SERVICE = 'docker-engine'

/** The engine alone needs half of it. With too little, the kernel ends the sandbox. */
const LEAST_MEMORY_MIB = 256

/** The exit code of a shell that does not find a program. */
const NOT_INSTALLED = 127

const PACKAGES = 'with `apt = ["docker.io", "iptables"]` below `[environment.packages]` in agentpod.toml'

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
missing=
for program in docker dockerd containerd iptables-legacy; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "not installed in this environment:$missing" >&2; exit ${NOT_INSTALLED}; }
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

/** What to do about an engine that did not start; `exit` is how it ended, if it did. */
export function dockerHint(exit: ProcessExit | undefined): string {
  if (exit?.oomKilled) return 'an engine and its containers need more memory: `--memory 2g`'
  return exit?.exitCode === NOT_INSTALLED
    ? `install the packages docker.io and iptables: ${PACKAGES}, in the image, or on this machine for the base \`host\``
    : 'this is the output of dockerd; docs/guides/docker-inside.md says what an engine needs'
}

/**
 * SECURITY: an engine needs all capabilities. On a kernel that is shared with the host they would reach the
 * host.
 */
export async function requireDocker(provider: Provider, { resources }: Spec): Promise<void> {
  const { docker, isolation } = await provider.capabilities(CALL)
  if (docker) {
    if (resources.memoryMib >= LEAST_MEMORY_MIB) return
    throw invalid(
      'docker.memory',
      `a Docker engine needs at least ${LEAST_MEMORY_MIB} MiB of memory, and the limit is ${resources.memoryMib} MiB`,
      'raise `--memory`: the limit holds for the engine and all of its containers together',
    )
  }
  if (isolation !== 'container') {
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'docker.root',
      message: `a Docker engine in a sandbox on ${provider.name} needs a server that runs as root`,
      hint: 'run the server as root',
    })
  }
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'docker.unsupported',
    message: `sandboxes on ${provider.name} cannot run a Docker engine`,
    hint: 'use the level `gvisor` or `vm`: `--isolation gvisor`, or `isolation = "gvisor"` in agentpod.toml',
  })
}
