/** How engines are named; apart from engines.ts since these types are part of the package's own. */
export type EngineName = 'native' | 'js';
export type EngineWish = EngineName | 'auto';
