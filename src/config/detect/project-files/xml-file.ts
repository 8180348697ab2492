/** Parses XML files of a project: only elements, each as text or as an object. */

import { XMLParser } from 'fast-xml-parser'
import { isObject, type JsonObject } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { type ParsedFile, parseFile } from './parsed-file.ts'

const MOST_LEVELS = 100

/** SECURITY: entities are not expanded, so that none can grow or read another file. */
export function readXmlFile(tree: FileTree, path: string): ParsedFile | undefined {
  return tree.readAs(path, parseXml)
}

export function parseXml(raw: string): ParsedFile {
  return parseFile(raw, (text) => {
    const parser = new XMLParser({
      processEntities: false,
      ignoreAttributes: false,
      attributeNamePrefix: '@',
      parseTagValue: false,
      parseAttributeValue: false,
      removeNSPrefix: true,
      ignoreDeclaration: true,
      ignorePiTags: true,
      maxNestedTags: MOST_LEVELS,
    })
    const data: unknown = parser.parse(text)
    if (!isObject(data) || Object.keys(data).length === 0) throw new SyntaxError('it contains no element')
    return data
  })
}

/** An element that may occur once or several times, always as a list. */
export function elements(value: unknown): readonly unknown[] {
  if (value === undefined || value === '') return []
  return Array.isArray(value) ? value : [value]
}

export function tableElements(value: unknown): readonly JsonObject[] {
  return elements(value).filter(isObject)
}

/** The text of an element, with attributes or without. */
export function elementText(value: unknown): string | undefined {
  const text = isObject(value) && Object.hasOwn(value, '#text') ? value['#text'] : value
  return typeof text === 'string' && text.trim() !== '' ? text.trim() : undefined
}
