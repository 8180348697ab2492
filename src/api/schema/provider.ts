import * as z from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'

export const capabilities = z.object({
  isolation: z.enum(ISOLATIONS),
  limits: z.enum(['none', 'soft', 'enforced']),
  pause: z.enum(['none', 'signals', 'freeze', 'memory']),
  stop: z.enum(['none', 'files']),
  snapshot: z.enum(['none', 'workspace', 'disk', 'memory']),
  network: z.enum(['none', 'native', 'proxy', 'transparent']),
  metering: z.enum(['none', 'host']),
  deadlines: z.enum(['guest', 'provider']),
  layers: z.boolean().describe('Whether the base debian is available.'),
  images: z.boolean().describe('Whether container images can be the base.'),
  host: z.boolean().describe('Whether the tools of this machine can be the base.'),
  volumes: z.boolean().describe('Whether sandboxes can mount volumes.'),
  rootMounts: z.boolean().describe('Whether a build step can mount the files of another one.'),
  docker: z.boolean().describe('Whether a sandbox can run a Docker engine inside.'),
  notes: z.array(z.string()),
})

export const provider = z.object({
  name: z.string(),
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .describe('How sandboxes are isolated; absent while the provider does not answer.'),
  ready: z.boolean(),
  reason: z.string().optional().describe('Why it is not ready.'),
  isDefault: z.boolean().describe('Whether it is the default.'),
  capabilities: capabilities.optional(),
})
export type ProviderView = z.infer<typeof provider>
