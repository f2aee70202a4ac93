//! Where well-known providers are, as their documentation says, and by which variable their keys
//! go.

/// A provider that others know by name.
pub(crate) struct Vendor {
    /// The names that LiteLLM, Busbar and Rolter call it by.
    pub(crate) names: &'static [&'static str],
    /// The protocol it speaks.
    pub(crate) protocol: &'static str,
    /// Where it is; empty where only the operator knows.
    pub(crate) base_url: &'static str,
    /// The usual variable of its key; empty when it wants none.
    pub(crate) variable: &'static str,
}

const fn vendor(
    names: &'static [&'static str],
    protocol: &'static str,
    base_url: &'static str,
    variable: &'static str,
) -> Vendor {
    Vendor {
        names,
        protocol,
        base_url,
        variable,
    }
}

/// Providers with a key of their own that speak a protocol of ours.
const VENDORS: &[Vendor] = &[
    vendor(
        &["openai"],
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
    ),
    vendor(
        &["anthropic"],
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
    ),
    vendor(
        &["gemini", "gemini_native", "google"],
        "gemini",
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
    ),
    vendor(
        &["cohere", "cohere_chat"],
        "cohere",
        "https://api.cohere.com",
        "COHERE_API_KEY",
    ),
    vendor(
        &["groq"],
        "openai",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
    ),
    vendor(
        &["openrouter"],
        "openai",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
    ),
    vendor(
        &["together_ai", "together"],
        "openai",
        "https://api.together.xyz/v1",
        "TOGETHERAI_API_KEY",
    ),
    vendor(
        &["mistral", "codestral"],
        "openai",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
    ),
    vendor(
        &["deepseek"],
        "openai",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
    ),
    vendor(
        &["fireworks_ai", "fireworks"],
        "openai",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
    ),
    vendor(&["xai"], "openai", "https://api.x.ai/v1", "XAI_API_KEY"),
    vendor(
        &["cerebras"],
        "openai",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
    ),
    vendor(
        &["nvidia_nim", "nvidia"],
        "openai",
        "https://integrate.api.nvidia.com/v1",
        "NVIDIA_NIM_API_KEY",
    ),
    vendor(
        &["deepinfra"],
        "openai",
        "https://api.deepinfra.com/v1/openai",
        "DEEPINFRA_API_KEY",
    ),
    vendor(
        &["sambanova"],
        "openai",
        "https://api.sambanova.ai/v1",
        "SAMBANOVA_API_KEY",
    ),
    vendor(
        &["moonshot"],
        "openai",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
    ),
    vendor(
        &["dashscope"],
        "openai",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
    ),
    vendor(
        &["zai", "z.ai"],
        "openai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
    ),
    vendor(
        &["minimax"],
        "openai",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
    ),
    vendor(
        &["ollama", "ollama_chat"],
        "openai",
        "http://localhost:11434/v1",
        "",
    ),
    vendor(
        &["ollama_cloud"],
        "openai",
        "https://ollama.com/v1",
        "OLLAMA_API_KEY",
    ),
    vendor(
        &[
            "hosted_vllm",
            "vllm",
            "openai_compatible",
            "openai_like",
            "custom_openai",
            "litellm_proxy",
            "lm_studio",
            "llamafile",
            "xinference",
            "text-completion-openai",
            "tgi",
            "sglang",
        ],
        "openai",
        "",
        "",
    ),
];

/// Providers that want a form of authentication or a protocol that agents do not have.
const ABSENT: &[(&str, &str)] = &[
    ("bedrock", "AWS signatures"),
    ("bedrock_converse", "AWS signatures"),
    ("sagemaker", "AWS signatures"),
    ("vertex_ai", "Google's access tokens"),
    ("vertex", "Google's access tokens"),
    ("vertex_ai_beta", "Google's access tokens"),
    ("watsonx", "IBM's access tokens and protocol"),
    ("github_copilot", "GitHub's access tokens"),
    ("chatgpt", "the sign-in of a person"),
    ("replicate", "Replicate's protocol"),
    ("huggingface", "Hugging Face's routing"),
    ("perplexity", "paths without a version"),
    ("databricks", "paths of Databricks"),
    ("cloudflare", "Cloudflare's protocol"),
    ("voyage", "Voyage's protocol"),
    ("jina_ai", "Jina's protocol"),
    ("deepgram", "audio"),
    ("elevenlabs", "audio"),
];

/// A provider by a name that others use.
pub(crate) fn find(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|it| it.names.contains(&name))
}

/// What a provider wants that agents do not have.
pub(crate) fn absent(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|it| it.0 == name).map(|it| it.1)
}

/// The provider of a model that is named without one.
pub(crate) fn of_bare_model(model: &str) -> Option<&'static Vendor> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|it| model.starts_with(it));
    let name = if begins(&[
        "gpt-",
        "gpt_",
        "o1",
        "o3",
        "o4",
        "chatgpt",
        "text-embedding-",
        "dall-e",
        "whisper",
        "tts-",
        "omni-moderation",
        "text-moderation",
        "ft:gpt",
    ]) {
        "openai"
    } else if begins(&["claude"]) {
        "anthropic"
    } else if begins(&["command"]) {
        "cohere"
    } else {
        return None;
    };
    find(name)
}
