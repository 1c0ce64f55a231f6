import { useSignal } from '@preact/signals';
import { CheckIcon, CopyIcon } from './icons';

/** A command that can be copied. */
export function Command({ text }: { text: string }) {
  const copied = useSignal(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      copied.value = true;
      setTimeout(() => (copied.value = false), 2000);
    } catch { /* the text can be selected */ }
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button class="button quiet icon" aria-label={copied.value ? 'Copied' : `Copy: ${text}`} onClick={() => void copy()}>{copied.value ? <CheckIcon /> : <CopyIcon />}</button>
    </span>
  );
}
