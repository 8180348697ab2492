/** What a program that runs a server inside itself imports. */
export { type BundledPrograms, bundledPrograms } from '../main/bundled-programs.ts'
export { type RunningServer, startServer } from '../main/server.ts'
export type { ProviderFactory, ProviderParts, ServerOptions } from '../main/server-options.ts'
