/** Which presets there are. */

import { PACKAGE_PRESETS, type PackagePreset } from '../../core/build/package-preset.ts'
import { invalid } from '../../core/error.ts'
import { toPrintableAscii } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'

/** Package managers: their hosts come from this machine's own clients. */
export const CLIENT_PRESETS = PACKAGE_PRESETS
export type ClientPreset = PackagePreset

/** What an environment may be built from without a grant: package managers, and the servers of NixOS. */
export const ENVIRONMENT_PRESETS = [...CLIENT_PRESETS, 'nix'] as const
export type EnvironmentPreset = (typeof ENVIRONMENT_PRESETS)[number]

/** Forges, model providers and NixOS: hosts from their documentation on this date. */
export const DATA_DATE = '2026-11-16'
export const DATA_PRESETS: Readonly<Record<string, readonly string[]>> = {
  github: [
    'github.com',
    'api.github.com',
    'codeload.github.com',
    'objects.githubusercontent.com',
    'raw.githubusercontent.com',
    'release-assets.githubusercontent.com',
    'uploads.github.com',
  ],
  docker: [
    'registry-1.docker.io',
    'auth.docker.io',
    'index.docker.io',
    'production.cloudflare.docker.com',
    'production.cloudfront.docker.com',
    'docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com',
  ],
  gitlab: ['gitlab.com', 'registry.gitlab.com'],
  bitbucket: ['bitbucket.org', 'api.bitbucket.org'],
  codeberg: ['codeberg.org'],
  nix: ['cache.nixos.org', 'channels.nixos.org', 'releases.nixos.org'],
  anthropic: ['api.anthropic.com'],
  openai: ['api.openai.com'],
  google: ['generativelanguage.googleapis.com'],
  mistral: ['api.mistral.ai'],
  deepseek: ['api.deepseek.com'],
  xai: ['api.x.ai'],
  groq: ['api.groq.com'],
  openrouter: ['openrouter.ai'],
}

export const PRESETS: readonly string[] = [...CLIENT_PRESETS, ...Object.keys(DATA_PRESETS)]

export function isClientPreset(name: string): name is ClientPreset {
  return (CLIENT_PRESETS as readonly string[]).includes(name)
}

export function parsePresetName(name: string): string {
  if (PRESETS.includes(name)) return name
  const near = nearest(name, PRESETS)
  throw invalid(
    'preset.unknown',
    `unknown preset: ${JSON.stringify(toPrintableAscii(name).slice(0, 40))}`,
    near ? `did you mean ${near}?` : `the presets are ${PRESETS.join(', ')}`,
  )
}
