// Builds an environment in code, and runs a command in it. The second run finds everything in the cache.
import { AgentPod, Environment } from 'agentpod'

const pod = AgentPod.at()
const tools = Environment.debian().pip('cowsay').env({ COW: 'daisy' })

const built = await tools.build(pod, { onLog: (line) => console.error(line) })
const sandbox = await pod.create({ environment: built, lifetime: { ttlMs: 5 * 60_000 } })
const code = 'import cowsay, os; cowsay.cow(os.environ["COW"])'
const { stdout } = await sandbox.exec('python3', { args: ['-c', code] }).wait()
console.log(stdout)
await sandbox.destroy()
pod.close()
