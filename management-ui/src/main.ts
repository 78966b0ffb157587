import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { session } from './lib/session.svelte';
import { settings } from './lib/settings.svelte';

settings.applyTheme();
void session.restore();
mount(App, { target: document.getElementById('app')! });
