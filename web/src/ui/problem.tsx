import { useEffect, useRef } from 'preact/hooks';
import { arrive } from '../lib/router';

/** A whole page that tells one problem. */
export function Problem({ title, detail, action, onAction }: { title: string; detail: string; action?: string; onAction?: () => void }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => arrive(heading.current), []);
  return (
    <main class="empty page">
      <h1 ref={heading} tabIndex={-1}>{title}</h1>
      <p>{detail}</p>
      {action && <p><button class="button" onClick={onAction}>{action}</button></p>}
    </main>
  );
}
