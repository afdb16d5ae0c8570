// The forms in which bytes can be looked at.

import { asUtf8, base64Text, gunzip, isGzip } from '../../format/bytes';
import { indentJson, isJson } from '../../format/json';
import { isReadable } from '../../format/text';

export const FORMS = ['auto', 'text', 'json', 'hex', 'base64', 'gunzip'] as const;

export type Form = (typeof FORMS)[number];

/** What is shown: bytes as hex, or text; and what there is to say about it. */
export interface Shown {
  form: Exclude<Form, 'auto'>;
  text?: string;
  bytes?: Uint8Array<ArrayBuffer>;
  remark?: 'not_utf8' | 'not_json' | 'not_gzip';
}

export const UNPACKED_MAX = 8 << 20;
const REPLACEMENT = '\u25c6';

/** Never changes `bytes`: what is saved is never made out of what is shown. */
export async function show(bytes: Uint8Array<ArrayBuffer>, form: Form): Promise<Shown> {
  switch (form) {
    case 'auto':
      return show(bytes, guess(bytes));
    case 'text':
      return showText(bytes);
    case 'json':
      return showJson(bytes);
    case 'hex':
      return { form, bytes };
    case 'base64':
      return { form, text: base64Text(bytes) };
    case 'gunzip':
      return showUnpacked(bytes);
  }
}

export function guess(bytes: Uint8Array): Exclude<Form, 'auto' | 'base64'> {
  if (isGzip(bytes)) {
    return 'gunzip';
  }
  const text = asUtf8(bytes);
  if (text === undefined || !isReadable(text)) {
    return 'hex';
  }
  return isJson(text) ? 'json' : 'text';
}

function showText(bytes: Uint8Array): Shown {
  const text = asUtf8(bytes);
  if (text !== undefined) {
    return { form: 'text', text };
  }
  const lossy = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  return { form: 'text', text: lossy.replaceAll('\ufffd', REPLACEMENT), remark: 'not_utf8' };
}

function showJson(bytes: Uint8Array): Shown {
  const text = asUtf8(bytes);
  return text !== undefined && isJson(text)
    ? { form: 'json', text: indentJson(text) }
    : { ...showText(bytes), remark: 'not_json' };
}

async function showUnpacked(bytes: Uint8Array<ArrayBuffer>): Promise<Shown> {
  const inside = await gunzip(bytes, UNPACKED_MAX);
  if (!inside) {
    return { form: 'hex', bytes, remark: 'not_gzip' };
  }
  const form = guess(inside);
  const shown = form === 'gunzip' ? { bytes: inside } : await show(inside, form);
  return { ...shown, form: 'gunzip' };
}
