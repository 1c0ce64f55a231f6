import '@preact/signals';
import './styles/base.css';
import { render } from 'preact';
import { App } from './app';
import { startKeys } from './lib/keys';
import { startRouter } from './lib/router';
import { applyTheme } from './lib/theme';

applyTheme();
startRouter();
startKeys();
render(<App />, document.getElementById('app')!);
