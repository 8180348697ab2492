/** Java and Kotlin, built by Maven or Gradle. */
import type { Detector, Finding } from '../finding.ts'
import { detectGradle } from './gradle.ts'
import { detectMaven } from './maven.ts'

/** If a directory has both, Maven is used: it needs no downloaded wrapper. */
export const detectJava: Detector = (tree) => {
  const maven = detectMaven(tree)
  const gradle = detectGradle(tree)
  const both = maven.map((one) =>
    withBeaten(
      one,
      gradle.find(({ directory }) => directory === one.directory),
    ),
  )
  const directories = new Set(maven.map(({ directory }) => directory))
  return [...both, ...gradle.filter(({ directory }) => !directories.has(directory))]
}

function withBeaten(finding: Finding, other: Finding | undefined): Finding {
  if (!other || !finding.manager) return finding
  const why = 'Maven goes before Gradle and needs no wrapper'
  const beat = [{ name: 'gradle', evidence: other.evidence, why }]
  return { ...finding, manager: { ...finding.manager, beat } }
}
