#!/usr/bin/env python3
"""Tiny random-weight Mamba / FalconMamba / Mamba2 / Zamba / Zamba2 models + reference outputs.

  pip install torch transformers==5.24.0 safetensors      (4.x releases are wrong for Zamba2 past one chunk)
  python make_models.py [NAME...]      -> <name>/ beside this file; then: xz -9e <name>/*.safetensors

Each folder: config.json + model*.safetensors (save_pretrained), reference.safetensors, reference.json. Only "mamba" is
in the tree so far; the other families come with their block kinds.
reference.safetensors, for prompt i = 0..n-1 (all float32 / int32, batch dimension dropped):
  p{i}.input_ids      [T]
  p{i}.logits         [T,V]   full forward, no cache (the authority)
  p{i}.greedy         [24]    greedy continuation, every step a full forward without cache
  p{i}.greedy_logits  [24,V]  logits that chose each greedy token
  p{i}.greedy_logits_cached [24,V]  the same from HF's cached decode, teacher-forced (differs for Zamba2, see below)
  p{i}.ssm_end_decode ssm state after prompt + 24 tokens by HF's cached decode
  p{i}.conv           [L,C,K] conv state after the prompt (HF layout: last K inputs, oldest first, zero-padded left)
  p{i}.ssm            [L,...] ssm state after the prompt (HF layout)
  p{i}.conv_end/.ssm_end      the same after prompt + 24 greedy tokens (a full prefill of those)
  p{i}.k/.v           [A,H,T,D] attention caches of the A attention layers after the prompt (Zamba types)
Prompts are re-drawn until the smallest top1-top2 margin along the greedy path is > MARGIN, so greedy
tokens can be compared exactly.
Zamba2: HF clamps dt to >= time_step_min in the multi-token form only, not in the one-token form, so its
cached decode departs from its full forward (1e-3..1e-2 here); 'noclamp_*' in reference.json shows the
departure vanishing when the clamp is off.
"""
import json, math, os, sys, time, warnings
import torch
from safetensors.torch import save_file
import transformers
from transformers import (MambaConfig, MambaForCausalLM, FalconMambaConfig, FalconMambaForCausalLM,
                          Mamba2Config, Mamba2ForCausalLM, ZambaConfig, ZambaForCausalLM,
                          Zamba2Config, Zamba2ForCausalLM)
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error(); transformers.utils.logging.disable_progress_bar()
HERE = os.path.dirname(os.path.abspath(__file__))
NGEN, MARGIN = 24, 5e-3
CLS = dict(mamba=(MambaConfig, MambaForCausalLM), falcon_mamba=(FalconMambaConfig, FalconMambaForCausalLM),
           mamba2=(Mamba2Config, Mamba2ForCausalLM), zamba=(ZambaConfig, ZambaForCausalLM),
           zamba2=(Zamba2Config, Zamba2ForCausalLM))

def make(arch, seed, **kw):
    C, M = CLS[arch]
    torch.manual_seed(seed)
    m = M(C(**kw)).float().eval()
    g = torch.Generator().manual_seed(seed)
    rn = lambda p, s: torch.randn(p.shape, generator=g) * s
    with torch.no_grad():
        for n, p in m.named_parameters():
            if n.endswith("A_log") or n.endswith(".D") or "dt_bias" in n or "dt_proj_bias" in n or n.endswith("dt_proj.bias"):
                p.add_(rn(p, 0.1))                       # library init + noise
            elif "norm" in n and p.dim() == 1:
                p.copy_(1 + rn(p, 0.1))
            elif n.endswith("bias"):
                p.copy_(rn(p, 0.05))
            elif "conv1d.weight" in n:
                p.copy_(rn(p, 0.4))
            elif "dt_proj" in n:
                p.copy_(rn(p, 0.3))
            elif "embed" in n or "lm_head" in n:
                p.copy_(rn(p, 0.1))
            elif p.dim() >= 2:
                p.copy_(rn(p, 0.1))
            else:
                raise SystemExit(f"unhandled parameter {n} {tuple(p.shape)}")
    return m

def cache_of(o):
    c = getattr(o, "cache", None)
    if c is None: c = getattr(o, "past_key_values", None)
    if c is None: c = getattr(o, "cache_params", None)
    return c

def states(c):
    conv, ssm, k, v = [], [], [], []
    for l in c.layers:
        if hasattr(l, "conv_states"):
            conv.append(l.conv_states[0][0].clone()); ssm.append(l.recurrent_states[0][0].clone())
        if getattr(l, "keys", None) is not None and l.keys.numel():
            k.append(l.keys[0].clone()); v.append(l.values[0].clone())
    return torch.stack(conv), torch.stack(ssm), (torch.stack(k) if k else None), (torch.stack(v) if v else None)

@torch.no_grad()
def full(m, ids):
    return m(torch.tensor([ids]), use_cache=False, **KEEP(m)).logits[0].float()
def KEEP(m):
    return dict(logits_to_keep=0)

@torch.no_grad()
def prefill(m, ids):
    o = m(torch.tensor([ids]), use_cache=True, **KEEP(m))
    return o.logits[0].float(), cache_of(o)

@torch.no_grad()
def greedy(m, ids):
    cur, toks, lg, mg = list(ids), [], [], 1e9
    for _ in range(NGEN):
        l = full(m, cur)[-1]
        t = l.topk(2).values
        mg = min(mg, float(t[0] - t[1]))
        if mg < MARGIN: return None
        toks.append(int(l.argmax())); lg.append(l); cur.append(toks[-1])
    return toks, torch.stack(lg), mg

@torch.no_grad()
def step_cached(m, c, tok):
    o = m(torch.tensor([[tok]]), cache=c, use_cache=True, **KEEP(m))
    return o.logits[0, -1].float(), cache_of(o)

def rel(a, b): return float((a - b).abs().max())

def build(name, arch, seed, lens, kw, bf16=False, shard=None):
    t0 = time.time()
    m = make(arch, seed, **kw)
    if bf16:                                              # weights rounded to bf16, reference still float32 math
        m = m.bfloat16().float()
    V = m.config.vocab_size
    d = os.path.join(HERE, name); os.makedirs(d, exist_ok=True)
    ms = m.to(torch.bfloat16) if bf16 else m
    ms.save_pretrained(d, safe_serialization=True, **({"max_shard_size": shard} if shard else {}))
    m = CLS[arch][1].from_pretrained(d, dtype=torch.float32).eval()   # what is measured is what was saved
    ref, info = {}, []
    g = torch.Generator().manual_seed(seed + 1000)
    for i, T in enumerate(lens):
        for tries in range(400):
            ids = torch.randint(3, V, (T,), generator=g).tolist()
            r = greedy(m, ids)
            if r: break
        else: raise SystemExit("no prompt with margin")
        toks, glog, mg = r
        L = full(m, ids)
        Lc, c = prefill(m, ids)
        conv, ssm, k, v = states(c)
        Le, ce = prefill(m, ids + toks); conve, ssme, _, _ = states(ce)
        dev = dict(T=T, tries=tries + 1, margin=mg, logit_absmax=float(L.abs().max()), distinct_greedy=len(set(toks)),
                   prefill_cache_vs_nocache=rel(L, Lc))
        # (a) cached decode after cached prefill, teacher-forced with the greedy tokens
        e, same, cc = 0., True, c
        lg, glc = Lc[-1], []
        for j, t in enumerate(toks):
            glc.append(lg); e = max(e, rel(lg, glog[j])); same &= int(lg.argmax()) == t
            lg, cc = step_cached(m, cc, t)
        dev["cached_decode_vs_full"] = e; dev["cached_greedy_same"] = bool(same)
        s2 = states(cc); dev["ssm_end_decode_vs_prefill"] = rel(s2[1], ssme); dev["conv_end_decode_vs_prefill"] = rel(s2[0], conve)
        # (b) token by token from nothing vs the full forward
        if T > 1:
            cc, e = None, 0.
            lt, cc = prefill(m, ids[:1]); e = rel(lt[-1], L[0])
            for j in range(1, T):
                lg, cc = step_cached(m, cc, ids[j]); e = max(e, rel(lg, L[j]))
            dev["token_by_token_vs_full"] = e
            # (c) a second multi-token chunk with a cache
            h = max(1, T // 2)
            try:
                with torch.no_grad():
                    _, cc = prefill(m, ids[:h])
                    o = m(torch.tensor([ids[h:]]), cache=cc, use_cache=True, **KEEP(m))
                dev["chunked_prefill_vs_full"] = rel(o.logits[0].float(), L[h:])
            except Exception as x:
                dev["chunked_prefill_vs_full"] = f"{type(x).__name__}: {x}"[:200]
        try:                                              # noise floor: mostly-float64 run
            md = CLS[arch][1].from_pretrained(d, dtype=torch.float64).eval()
            with torch.no_grad(): Ld = md(torch.tensor([ids]), use_cache=False, **KEEP(m)).logits[0].double()
            dev["f32_vs_f64"] = rel(L.double(), Ld)
        except Exception as x: dev["f32_vs_f64"] = f"{type(x).__name__}: {x}"[:120]
        if arch == "zamba2":
            for l in m.modules():
                if hasattr(l, "time_step_limit"): l.time_step_limit = (0.0, float("inf"))
            L0 = full(m, ids); l0, cc = prefill(m, ids[:1]); e = rel(l0[-1], L0[0])
            for j in range(1, T):
                lg, cc = step_cached(m, cc, ids[j]); e = max(e, rel(lg, L0[j]))
            dev["noclamp_token_by_token_vs_full"] = e; dev["noclamp_vs_clamp_full"] = rel(L0, L)
            for l in m.modules():
                if hasattr(l, "time_step_limit"): l.time_step_limit = (m.config.time_step_min, float("inf"))
        info.append(dev)
        P = f"p{i}."
        ref[P + "input_ids"] = torch.tensor(ids, dtype=torch.int32); ref[P + "logits"] = L.contiguous()
        ref[P + "greedy"] = torch.tensor(toks, dtype=torch.int32); ref[P + "greedy_logits"] = glog.contiguous()
        ref[P + "greedy_logits_cached"] = torch.stack(glc)
        ref[P + "ssm_end_decode"] = s2[1]
        ref[P + "conv"], ref[P + "ssm"], ref[P + "conv_end"], ref[P + "ssm_end"] = conv, ssm, conve, ssme
        if k is not None: ref[P + "k"], ref[P + "v"] = k.contiguous(), v.contiguous()
    save_file({k: v.contiguous() for k, v in ref.items()}, os.path.join(d, "reference.safetensors"))
    npar = sum(p.numel() for p in m.parameters())
    json.dump(dict(name=name, arch=arch, seed=seed, params=npar, weights="bf16" if bf16 else "f32", prompts=info,
                   transformers=transformers.__version__, torch=torch.__version__,
                   shapes={k: list(v.shape) for k, v in ref.items()}), open(os.path.join(d, "reference.json"), "w"), indent=1)
    print(f"== {name} params={npar} {time.time()-t0:.1f}s")
    for dv in info: print("   ", {k: (float(f'{v:.3g}') if isinstance(v, float) else v) for k, v in dv.items()})

B = dict(num_hidden_layers=4, hidden_size=64, vocab_size=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
MODELS = [
 ("mamba", "mamba", 1, (1, 17, 150), dict(B, state_size=16)),
 ("falcon_mamba", "falcon_mamba", 2, (1, 17, 150), dict(B, state_size=16)),
 ("mamba2", "mamba2", 3, (1, 17, 150), dict(B, state_size=16, num_heads=8, head_dim=16, n_groups=1, chunk_size=64)),
 ("zamba", "zamba", 4, (1, 17, 150), dict(B, num_hidden_layers=6, layers_block_type=["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid", "linear_attention"],
      mamba_d_state=16, n_mamba_heads=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=160, attn_layer_period=2, attn_layer_offset=1)),
 ("zamba2", "zamba2", 5, (1, 17, 150), dict(B, num_hidden_layers=7, layers_block_type=["linear_attention", "hybrid", "linear_attention", "hybrid", "linear_attention", "hybrid", "hybrid"],
      mamba_d_state=16, n_mamba_heads=8, mamba_ngroups=1, num_attention_heads=4, intermediate_size=160, chunk_size=64,
      num_mem_blocks=2, use_shared_attention_adapter=True, adapter_rank=8, use_mem_rope=True)),
]
if __name__ == "__main__":
    only = sys.argv[1:]
    torch.set_num_threads(int(os.environ.get("T", "1")))
    for n, a, s, l, kw in MODELS:
        if not only or any(f in n for f in only): build(n, a, s, l, kw)
