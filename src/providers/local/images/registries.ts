/** Where images come from: the registry of a reference and its mirrors, with the credential for each. */

/** What the user's configuration says about a registry. */
export interface RegistrySettings {
  /** Whether plain HTTP is allowed. */
  readonly insecure?: boolean | undefined
  /** A PEM bundle of authorities to trust besides the machine's. */
  readonly ca?: string | undefined
  /** Hosts that are asked first. */
  readonly mirrors?: readonly string[] | undefined
}

/** Of the user who runs the server. */
export interface RegistryCredential {
  readonly username?: string | undefined
  readonly password?: string | undefined
  readonly identityToken?: string | undefined
}

/** Asked at each pull, because the files may have changed. */
export interface Registries {
  settings(): Readonly<Record<string, RegistrySettings>>
  credential(host: string): Promise<RegistryCredential | undefined>
}

export interface RegistryEndpoint extends Pick<RegistrySettings, 'insecure' | 'ca'> {
  readonly host: string
  readonly auth?: RegistryCredential | undefined
}

/**
 * SECURITY: IM-05. Credentials go to podimage by stdin and nowhere else: never into a sandbox, a file, a log
 * or an argument.
 */
export async function endpointsOf(
  registry: string,
  { settings, credential }: Registries,
  o: { readonly useMirrors: boolean; readonly isAnonymous?: boolean | undefined },
): Promise<RegistryEndpoint[]> {
  const all = settings()
  const hosts = [...(o.useMirrors ? (all[registry]?.mirrors ?? []) : []), registry]
  return Promise.all(
    hosts.map(async (host) => {
      const { insecure, ca } = all[host] ?? {}
      const auth = o.isAnonymous ? undefined : await credential(host)
      return {
        host,
        ...(insecure && { insecure }),
        ...(ca !== undefined && { ca }),
        ...(auth && { auth }),
      }
    }),
  )
}
